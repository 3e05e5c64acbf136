import { describe, expect, test } from "vitest";
import type { BlockValues } from "./block.ts";
import { gateMeasurements, gateTable, sinkingClaim, sinkingOf } from "./gate-claims.ts";
import { comparePairs, type Pair } from "./paired-comparison.ts";

const block = (times: number): BlockValues => ({
  latency_ms_p50: 12_345.6 * times,
  latency_ms_p99: 98_765.4,
  ttfe_ms_p50: 0.4,
  event_gap_ms_p50: null,
  shed_share: 0.5,
  error_share: 0,
  refusal_ms_p50: 3,
  goodput: times > 1 ? 0 : 12_345,
});

describe("the table", () => {
  const pairs: Pair[] = Array.from({ length: 12 }, () => ({ base: block(1), head: block(1.1) }));
  const lines = gateTable(comparePairs(pairs));

  test("fits into eighty columns, whatever the figures", () => {
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  });

  test("has a row for each measurement, with its verdict", () => {
    const row = (name: string): string => lines.find((line) => line.startsWith(name)) as string;
    expect(row("latency_ms_p50")).toMatch(/12346 +13580 +1\.100 +1\.100-1\.100 +1\.050 +1\.050 WORSE$/);
    expect(row("shed_share")).toMatch(/50\.00% +50\.00% +1\.000 .* ok$/);
    expect(row("goodput")).toMatch(/>=100 .* WORSE$/);
    expect(row("event_gap_ms_p50")).toMatch(/ -$/);
  });

  test("rests on medians of blocks, whose intervals need no more than six pairs, also of a p99", () => {
    const varied = pairs.map((_, at) => ({ base: block(1), head: { ...block(1), latency_ms_p99: 90 + at } }));
    const found = gateMeasurements(comparePairs(varied)).find(
      ({ name, stage }) => `${stage} ${name}` === "gate.head latency_ms_p99",
    );
    expect(found).toMatchObject({ value: 95.5, low: 92, high: 99, n: 12 });
  });

  test("is followed by what is no comparison: a head that served nothing says so", () => {
    const claim = sinkingClaim(sinkingOf(pairs, 1.05, 0.003), "again");
    expect(claim).toMatchObject({ id: "gate/goodput_kept", verdict: "inconclusive" });
    expect(claim.reason).toContain("the head carried nothing");
  });
});
