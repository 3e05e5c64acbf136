import { describe, expect, test } from "vitest";
import type { CallLine } from "./line.ts";
import { measureStage } from "./measure-stage.fixture.ts";
import { outcomesOf } from "./outcomes-of.fixture.ts";
import { coarserSeries, countOf, mergeSparse, quantileMs, type StageSeries, seriesFold } from "./series.ts";
import { sumOf } from "./statistics/statistics.ts";

const call = (i: number, atMs: number, over: Partial<CallLine> = {}): CallLine => ({
  type: "call",
  id: `r.s.c-${i}`,
  stage: "s",
  driver: "open-loop",
  org: `org_${i % 3}`,
  route: "design.styles",
  intended_us: atMs * 1000,
  started_us: atMs * 1000 + 300,
  connect_us: 0,
  sent_us: atMs * 1000 + 400,
  first_us: atMs * 1000 + 5_000,
  done_us: atMs * 1000 + 20_000,
  outcome: "200",
  attempt: 0,
  clock_error_us: 100,
  ...over,
});

const folded = (lines: readonly CallLine[]): StageSeries => {
  const fold = seriesFold();
  for (const line of lines) fold.see(line);
  return fold.end().stages[0]!;
};

const OUTCOMES = ["200", "429 b2b_overloaded", "429 rate_limited", "indeterminate", "edge 502", "200 error"];
const many = (n: number, everyMs: number): CallLine[] =>
  Array.from({ length: n }, (_, i) => call(i, i * everyMs, { outcome: OUTCOMES[(i * 7) % OUTCOMES.length]! }));

describe("series of a stage", () => {
  test.each([
    ["a short one", 400, 10],
    ["one of minutes", 400, 1_000],
    ["one of a day", 2_000, 43_200],
  ])("%s adds up to what was measured, whatever the order of the lines", (_, n, everyMs) => {
    const lines = many(n, everyMs);
    const series = folded([...lines].reverse());
    expect(outcomesOf(series)).toEqual(measureStage(lines, { stage: "s" }).summary.by_outcome);
    expect(sumOf(series.offered)).toBe(n);
    expect(sumOf(series.started)).toBe(n);
    expect(sumOf(series.ended)).toBe(n);
    expect(sumOf(Object.values(series.by_organization).flatMap(({ offered }) => offered))).toBe(n);
    expect(countOf(mergeSparse(series.lag))).toBe(n);
    expect(countOf(mergeSparse(series.refusals))).toBe(
      series.refusals.length === 0 ? 0 : lines.filter((l) => l.outcome.startsWith("429")).length,
    );
    expect(folded(lines)).toEqual(series);
  });

  test("bins are short in a short stage, a second in one of minutes, and bounded in number in one of a day", () => {
    expect(folded(many(400, 10)).bin_ms).toBe(125);
    expect(folded(many(400, 1_000)).bin_ms).toBe(1_000);
    const day = folded(many(2_000, 43_200));
    expect(day.offered.length).toBeLessThanOrEqual(1_200);
    expect(day.bin_ms).toBeGreaterThan(60_000);
  });

  test("a call stands where it was intended, not where it was sent or ended", () => {
    const series = folded([
      call(0, 0),
      call(1, 1_000, { started_us: 3_000_000, sent_us: 3_000_000, done_us: 4_000_000 }),
    ]);
    expect(series.offered[8]).toBe(1);
    expect(series.started[24]).toBe(1);
    expect(series.ended[32]).toBe(1);
    expect(quantileMs(series.latency[8]!, 0.5)).toBeCloseTo(3_000, -2);
    expect(quantileMs(series.latency_from_sent, 1)).toBeCloseTo(1_000, -2);
  });

  test("a refusal is no latency, a stream that was cut is neither, and gaps stand where the second event came", () => {
    const series = folded([
      call(0, 0, { outcome: "429 b2b_overloaded" }),
      call(1, 0, { events: 3, ended: "truncated", first_event_us: 5_000, gaps_us: [500_000, 250_000] }),
      call(2, 0, { outcome: "indeterminate" }),
      // Its head came, no event did; and a reader that rests makes the gaps itself.
      call(3, 0, { events: 0, ended: "truncated" }),
      call(4, 0, { events: 2, ended: "truncated", first_event_us: 6_000, gaps_us: [300_000], slow_reader: true }),
    ]);
    expect(countOf(mergeSparse(series.latency))).toBe(0);
    expect(countOf(mergeSparse(series.refusals))).toBe(1);
    expect(countOf(mergeSparse(series.first_event))).toBe(2);
    expect(countOf(mergeSparse(series.gaps))).toBe(2);
    expect([series.gaps[4], series.gaps[6]].map((gaps) => countOf(gaps!))).toEqual([1, 1]);
  });

  test("many organizations are folded, and none of their calls is lost", () => {
    const series = folded(Array.from({ length: 300 }, (_, i) => call(i, i, { org: `org_${i % 100}` })));
    expect(Object.keys(series.by_organization)).toHaveLength(65);
    expect(sumOf(series.by_organization["(others)"]!.offered)).toBe(36 * 3);
  });

  test("longer bins keep every sum and every histogram", () => {
    const series = folded(many(400, 10));
    const coarse = coarserSeries(series, 7);
    expect(coarse.offered.length).toBeLessThanOrEqual(7);
    expect(outcomesOf(coarse)).toEqual(outcomesOf(series));
    expect(mergeSparse(coarse.latency)).toEqual(mergeSparse(series.latency));
  });

  test("samples keep the largest of a bin, and faults their moments", () => {
    const fold = seriesFold();
    fold.see(call(0, 0));
    fold.see({ type: "sample", stage: "s", at_us: 10_000, values: { in_flight: 3, generator_cores: 0.2 } });
    fold.see({ type: "sample", stage: "s", at_us: 20_000, values: { in_flight: 9 } });
    const fault = {
      type: "fault",
      stage: "s",
      experiment: "e",
      link: "limiter",
      fault: "refused",
      stream: "both",
    } as const;
    fold.see({ ...fault, phase: "injected", at_us: 15_000, took_effect: true });
    fold.limits("s", { replicas: 2, global_in_flight: 64 });
    const series = fold.end().stages[0]!;
    expect(series.gauges).toEqual({ in_flight: [9] });
    expect(series.generator).toEqual({ generator_cores: [0.2] });
    expect(series.events).toEqual([
      { at_ms: 15, name: "injected", fault: { experiment: "e", link: "limiter", fault: "refused", took_effect: true } },
    ]);
    expect(series.in_flight_cap).toBe(128);
  });
});
