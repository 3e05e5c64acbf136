import { describe, expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import { type BlockPlan, measureBlock } from "./block.ts";
import { NO_VALUES } from "./no-values.fixture.ts";

const PLAN: BlockPlan = {
  steady: { fromUs: 1_000_000, toUs: 2_000_000 },
  past: { fromUs: 2_000_000, toUs: 4_000_000 },
  sloMs: 100,
};

const call = (intendedS: number, latencyMs: number, more: Partial<CallLine> = {}): CallLine => ({
  type: "call",
  id: "c",
  stage: "gate",
  driver: "open-loop",
  org: "org_a",
  route: "chat.control",
  intended_us: intendedS * 1e6,
  started_us: intendedS * 1e6 + 400,
  connect_us: 0,
  sent_us: intendedS * 1e6 + 500,
  first_us: null,
  done_us: intendedS * 1e6 + latencyMs * 1000,
  outcome: "200",
  attempt: 0,
  clock_error_us: 0,
  ended: "done",
  ...more,
});

describe("a block", () => {
  test("tells latency from the intended moment, of whole answers in its steady part alone", () => {
    const lines = [
      call(1, 10),
      call(1.5, 20),
      call(1.9, 30),
      call(0.9, 999),
      call(2, 999),
      call(1.2, 999, { outcome: "429 b2b_overloaded" }),
      call(1.2, 999, { ended: "truncated" }),
      call(1.2, 999, { aborted: true }),
    ];
    expect(measureBlock(lines, PLAN)).toMatchObject({ latency_ms_p50: 20, latency_ms_p99: null });
  });

  test("tells goodput per second of its part past the capacity, by answers inside the objective alone", () => {
    const lines = [call(2, 50), call(3, 100), call(3.5, 101), call(3.9, 1, { outcome: "429 b2b_overloaded" })];
    expect(measureBlock(lines, PLAN).goodput).toBe(1);
  });

  test("has a p99 from forty answers on", () => {
    const lines = Array.from({ length: 100 }, (_, n) => call(1 + n / 200, n + 1));
    expect(measureBlock(lines, PLAN).latency_ms_p99).toBeCloseTo(99.01, 5);
    expect(measureBlock(lines.slice(0, 39), PLAN).latency_ms_p99).toBeNull();
  });

  test("measures nothing of a noisy organization below the capacity, and all of it above", () => {
    const org = "org_noisy";
    const shed = { org, outcome: "429 org_overloaded" };
    const lines = [
      call(1.1, 10),
      call(1.2, 70, { org }),
      call(1.3, 1, shed),
      call(2.5, 4, shed),
      call(2.6, 10, { org }),
    ];
    expect(measureBlock(lines, { ...PLAN, noisy: new Set([org]) })).toMatchObject({
      latency_ms_p50: 10,
      shed_share: 0,
      error_share: 0,
      refusal_ms_p50: 4,
      goodput: 0.5,
    });
    expect(measureBlock(lines, PLAN).shed_share).toBeCloseTo(1 / 3, 9);
  });

  test("tells a stream's first event and the mean gap between its events", () => {
    const stream = { events: 5, first_us: 1.005e6, first_event_us: 1.01e6, last_event_us: 1.05e6 };
    const [one, two] = [call(1, 52, stream), call(1, 52, { ...stream, events: 2 })];
    expect(measureBlock([one, two], PLAN)).toMatchObject({ ttfe_ms_p50: 10, event_gap_ms_p50: 10 });
  });

  test("counts as errors what is neither whole nor refused for a limit", () => {
    const lines = [
      call(1.1, 10),
      call(1.2, 10, { outcome: "429 rate_limited" }),
      call(1.3, 10, { aborted: true }),
      call(1.4, 10, { ended: "truncated" }),
      call(1.5, 10, { ended: "eof" }),
      call(2.1, 10, { outcome: "503" }),
      call(2.2, 10, { outcome: "indeterminate" }),
      call(2.3, 10, { outcome: "200 error" }),
      call(2.4, 10, { outcome: "edge 502" }),
      call(2.5, 10),
    ];
    expect(measureBlock(lines, PLAN).error_share).toBeCloseTo(6 / 9, 9);
    // Where no stream ever ends in an event that is known, a clean end is none that is missing.
    expect(measureBlock(lines, { ...PLAN, foreignLastEvent: true }).error_share).toBeCloseTo(5 / 9, 9);
  });

  test("has no latency without answers, and a goodput of zero", () => {
    expect(measureBlock([], PLAN)).toEqual({ ...NO_VALUES, goodput: 0 });
  });
});
