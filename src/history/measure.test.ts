import { describe, expect, test } from "vitest";
import type { CallLine, Line } from "./line.ts";
import { measureStage } from "./measure-stage.fixture.ts";

const call = (i: number, over: Partial<CallLine> = {}): CallLine => ({
  type: "call",
  id: `run-load-${i}`,
  stage: "load",
  driver: "open-loop",
  org: "org_a",
  route: "-",
  intended_us: i * 10_000,
  started_us: i * 10_000,
  connect_us: 0,
  sent_us: i * 10_000,
  attempt: 0,
  first_us: i * 10_000 + 5000,
  done_us: i * 10_000 + 5000,
  outcome: "200",
  clock_error_us: 0,
  ...over,
});

const calls = (n: number, over: (i: number) => Partial<CallLine> = () => ({})): Line[] =>
  Array.from({ length: n }, (_, i) => call(i, over(i)));

const measured = (lines: Line[], options: Parameters<typeof measureStage>[1] = { stage: "load" }) => {
  const { summary, measurements } = measureStage(lines, options);
  return { summary, of: (name: string) => measurements.find((m) => m.name === name), measurements };
};

describe("the summary of a stage", () => {
  test("counts every call once", () => {
    const outcomes = ["200", "200 error", "429 b2b_overloaded", "edge 502", "indeterminate", "401"];
    const { summary } = measured(calls(60, (i) => ({ outcome: outcomes[i % 6]! })));
    expect(summary.calls).toEqual({ sent: 60, answered: 20, refused: 30, indeterminate: 10 });
    expect(Object.values(summary.by_outcome).reduce((a, b) => a + b)).toBe(60);
    expect(summary.by_outcome["429 b2b_overloaded"]).toBe(10);
  });

  test("passes over lines of other stages, faults and marks", () => {
    const { summary } = measured([
      call(0, { stage: "other" }),
      call(1),
      { type: "mark", stage: "load", name: "drained", at_us: 5 },
    ]);
    expect(summary.calls.sent).toBe(1);
  });

  test("names every driver, and the time from the first intended moment to the last end", () => {
    const { summary } = measured(calls(11, (i) => ({ driver: i % 2 === 0 ? "k6" : "autocannon" })));
    expect(summary.driver).toBe("autocannon+k6");
    expect(summary.duration_ms).toBe(105);
  });

  test("of no calls is all zeros and has no measurement", () => {
    const { summary, measurements } = measured([]);
    expect(summary).toMatchObject({ calls: { sent: 0 }, duration_ms: 0, by_outcome: {} });
    expect(measurements).toEqual([]);
  });
});

describe("latency", () => {
  test("counts from the moment a call should have left, so that a stalled generator hides nothing", () => {
    const { of } = measured(calls(10, (i) => ({ intended_us: i * 10_000 - 50_000 })));
    expect(of("latency_ms_max")?.value).toBe(55);
    expect(of("latency_from_sent_ms_p50")?.value).toBeCloseTo(5, 1);
    expect(of("schedule_lag_ms_p50")?.value).toBeCloseTo(50, 0);
  });

  test("has a slow connection in it, which is no lag of the generator", () => {
    const slow = (i: number) => ({ connect_us: i * 10_000 + 3_000_000, sent_us: i * 10_000 + 3_000_000 });
    const { of } = measured(calls(10, (i) => ({ ...slow(i), first_us: null, done_us: i * 10_000 + 3_005_000 })));
    expect(of("latency_ms_max")?.value).toBe(3005);
    expect(of("latency_from_sent_ms_p99")?.value).toBeCloseTo(5, 1);
    expect(of("schedule_lag_ms_p99")?.value).toBe(0);
  });

  test("is of answered calls alone; refusals have their own, and what is from sending stands beside", () => {
    const refused = (i: number) => ({ outcome: "429 rate_limited", done_us: i * 10_000 + 100 });
    const { of } = measured(
      calls(10, (i) => (i < 4 ? { ...refused(i), intended_us: i * 10_000 - 900, ended: "refused" } : {})),
    );
    expect(of("latency_ms_p50")).toMatchObject({ n: 6 });
    expect(of("refusal_ms_p99")).toMatchObject({ n: 4, unit: "ms" });
    expect(of("refusal_ms_p99")?.value).toBeCloseTo(1, 2);
    expect(of("refusal_from_sent_ms_p99")?.value).toBe(0.1);
  });

  test("of streams: to the first event from the moment it should have left, and every gap but a slow reader's", () => {
    const streamed = (i: number): Partial<CallLine> => ({
      route: "chat.control",
      ended: "done",
      events: 3,
      intended_us: i * 10_000 - 1_000,
      first_event_us: i * 10_000 + 4_000,
      gaps_us: [20_000, 40_000],
      ...(i === 0 ? { slow_reader: true as const, gaps_us: [900_000] } : {}),
    });
    const { of } = measured(calls(10, streamed));
    expect(of("ttfe_ms_p50")?.value).toBeCloseTo(5, 1);
    expect(of("ttfe_from_sent_ms_p50")?.value).toBeCloseTo(4, 1);
    expect(of("event_gap_ms_p50")).toMatchObject({ n: 18 });
    expect(of("event_gap_ms_p50")?.value).toBeCloseTo(20, 0);
    expect(of("event_gap_ms_p99")?.value).toBeCloseTo(40, 0);
  });

  test("leaves out answers of a balancer, calls without an answer, and streams that were cut or left, not what ended by itself", () => {
    const { of } = measured([
      call(0, { outcome: "edge 502" }),
      call(1, { outcome: "indeterminate", first_us: null }),
      call(2, { ended: "truncated", events: 2, first_event_us: 25_000 }),
      call(3, { ended: "closed_by_client", aborted: true, events: 2, first_event_us: 35_000 }),
      call(4, { ended: "done", events: 3, first_event_us: 45_000 }),
      call(5, { ended: "eof", events: 3, first_event_us: 55_000 }),
    ]);
    expect(of("latency_ms_p50")?.n).toBe(2);
    expect(of("refusal_ms_p50")).toBeUndefined();
    expect(of("ttfe_ms_p50")?.n).toBe(4);
  });

  test("every end that streams came to is counted, and no other", () => {
    const ends: CallLine["ended"][] = ["done", "done", "truncated", "refused"];
    const { of, measurements } = measured(calls(40, (i) => ({ ended: ends[i % 4]! })));
    expect(of("streams_done")).toMatchObject({ value: 20, n: 40, unit: "1" });
    expect(of("streams_refused")?.value).toBe(10);
    expect(measurements.filter(({ name }) => name.startsWith("streams_"))).toHaveLength(3);
  });

  test("with too few samples has no interval, and n says so", () => {
    const few = measured(calls(367)).of("latency_ms_p99");
    expect(few).toMatchObject({ low: null, high: null, n: 367 });
    // Of 368 each in its place at random, the largest is the upper end.
    const shuffled = (i: number): number => (i * 149) % 368;
    const enough = measured(calls(368, (i) => ({ done_us: i * 10_000 + 1000 + shuffled(i) }))).of("latency_ms_p99")!;
    expect(enough.low).toBeLessThanOrEqual(enough.value);
    expect(enough.high).toBeGreaterThanOrEqual(enough.value);
    expect(enough.high).toBe(1.367);
  });

  test("that rises and falls slowly has a wider interval, or none, than the same times in any order", () => {
    const wave = (i: number): number => Math.round(5_000 + 4_000 * Math.sin((2 * Math.PI * i) / 500));
    const order = (i: number): number => (i * 1549) % 4000;
    const slow = measured(calls(4000, (i) => ({ done_us: i * 10_000 + wave(i) }))).of("latency_ms_p50")!;
    const mixed = measured(calls(4000, (i) => ({ done_us: i * 10_000 + wave(order(i)) }))).of("latency_ms_p50")!;
    const width = ({ low, high }: { low: number | null; high: number | null }): number =>
      (high ?? Number.POSITIVE_INFINITY) - (low ?? 0);
    expect(slow.value).toBe(mixed.value);
    expect(width(slow)).toBeGreaterThan(3 * width(mixed));
    const drift = measured(calls(400, (i) => ({ done_us: i * 10_000 + 1000 + 10 * i }))).of("latency_ms_p99");
    expect(drift).toMatchObject({ low: null, high: null });
  });
});

describe("rates", () => {
  test("are of the scheduled time, compared with what was offered", () => {
    const { of } = measured(calls(95), { stage: "load", scheduledMs: 1000, offeredRatePerS: 100 });
    expect(of("achieved_rate")).toMatchObject({ value: 95, unit: "1/s", n: 95 });
    expect(of("rate_error")?.value).toBeCloseTo(-0.05, 12);
  });

  test("a generator that fell behind is not credited for finishing late", () => {
    const { of } = measured(
      calls(101, (i) => ({ started_us: i * 20_000, sent_us: i * 20_000, intended_us: i * 10_000 })),
      {
        stage: "load",
        scheduledMs: 1000,
      },
    );
    expect(of("achieved_rate")?.value).toBe(50.5);
  });

  test("are about first attempts; retries, later steps and minted sessions are counted apart", () => {
    const kinds: Partial<CallLine>[] = [{}, {}, { attempt: 1 }, { unscheduled: "step" }, { unscheduled: "mint" }];
    const { of } = measured(
      calls(100, (i) => kinds[i % 5]!),
      { stage: "load", scheduledMs: 1000, offeredRatePerS: 40 },
    );
    expect(of("achieved_rate")).toMatchObject({ value: 40, n: 40 });
    expect(of("rate_error")?.value).toBeCloseTo(0, 12);
    expect(of("first_attempts")).toMatchObject({ value: 40, n: 100 });
    expect(of("retries")?.value).toBe(20);
    expect(of("amplification")).toMatchObject({ value: 1.5, n: 40 });
    expect(of("session_mints")?.value).toBe(20);
  });

  test("a session minted before the first arrival and a step after the last make no generator slow", () => {
    const late: Partial<CallLine> = { unscheduled: "step", started_us: 1_400_000, sent_us: 1_400_000 };
    const early: Partial<CallLine> = { unscheduled: "mint", intended_us: -300_000, started_us: -300_000 };
    const { of } = measured(
      calls(102, (i) => (i === 100 ? late : i === 101 ? early : {})),
      { stage: "load", scheduledMs: 1000, offeredRatePerS: 100 },
    );
    expect(of("rate_error")?.value).toBeCloseTo(0, 12);
  });

  test("without a schedule are read from the gaps, and one call has none", () => {
    expect(measured(calls(101)).of("achieved_rate")?.value).toBe(100);
    expect(measured(calls(101)).of("rate_error")).toBeUndefined();
    expect(measured(calls(1)).of("achieved_rate")).toBeUndefined();
  });
});

describe("fairness", () => {
  test("counts an organization that was starved", () => {
    const { of } = measured(
      calls(20, (i) => ({ org: i % 2 === 0 ? "org_a" : "org_b", outcome: i % 2 === 0 ? "200" : "429 org_overloaded" })),
    );
    expect(of("jain_index")).toMatchObject({ value: 0.5, n: 2 });
  });

  test("has no meaning for one organization, and callers without one do not count", () => {
    expect(measured(calls(20, (i) => ({ org: i % 2 === 0 ? "org_a" : "-" }))).of("jain_index")).toBeUndefined();
  });
});
