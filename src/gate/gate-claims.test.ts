import { describe, expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import type { BlockValues } from "./block.ts";
import { answerForms, answersClaim, gateMeasurements, gateTable, sinkingClaim, sinkingOf } from "./gate-claims.ts";
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

describe("the form of answers", () => {
  const refused = (outcome: string, retry_after?: string) => ({ outcome, retry_after }) as CallLine;
  const streamed = (...event_names: string[]) =>
    ({ route: "chat.control", outcome: "200", ended: "done", event_names }) as CallLine;
  const [B2B, ORG, BARE] = [
    refused("429 b2b_overloaded", "1"),
    refused("429 org_overloaded", "1"),
    refused("429 b2b_overloaded"),
  ];
  /** `base` and `head`: the calls of each block. */
  const judged = (base: CallLine[], head: CallLine[], blocks = 12, firstOfBase = base) => {
    const of = (first: CallLine[], others: CallLine[]) =>
      Array.from({ length: blocks }, (_, at) => answerForms(at === 0 ? first : others));
    return answersClaim({ base: of(firstOfBase, base), head: of(head, head) }, "again").verdict;
  };

  test("has changed where the head lost a refusal of every block, and has another", () => {
    expect(judged([B2B], [ORG])).toBe("fail");
    expect(judged([B2B], [BARE])).toBe("fail");
    expect(judged([B2B, ORG], [BARE, ORG])).toBe("fail");
    expect(judged([B2B, BARE], [BARE])).toBe("fail");
    expect(judged([B2B], [ORG], 5)).toBe("inconclusive");
    expect(judged([B2B], [B2B], 0)).toBe("inconclusive");
  });

  test("has not where the head sheds later, meets a cap behind the first as well, or the base itself varies", () => {
    expect(judged([B2B], [])).toBe("pass");
    expect(judged([B2B, ORG], [ORG])).toBe("pass");
    expect(judged([B2B], [B2B, ORG])).toBe("pass");
    expect(judged([B2B], [ORG], 12, [])).toBe("pass");
    expect(judged([], [B2B])).toBe("skipped");
  });

  test("has not where the head adds the Retry-After that the base lacks", () => {
    expect(judged([BARE], [B2B])).toBe("pass");
    expect(judged([BARE, ORG], [B2B, ORG])).toBe("pass");
  });

  test("does not have the events of streams that failed", () => {
    const call = streamed("token", "done");
    const { events, refusals } = answerForms([call, { ...call, ended: "error_event", event_names: ["error"] }]);
    expect([...events]).toEqual(["token (chat.control)", "done (chat.control)"]);
    expect(refusals.size).toBe(0);
  });

  test("has changed where streams lost an event, and not where they got one", () => {
    expect(judged([streamed("delta", "final")], [streamed("delta")])).toBe("fail");
    expect(judged([streamed("delta", "final")], [streamed("delta", "ping", "final")])).toBe("pass");
  });
});
