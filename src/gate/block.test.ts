import { describe, expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import { type BlockPlan, measureBlock } from "./block.ts";

const PLAN: BlockPlan = {
  steady: { fromUs: 1_000_000, toUs: 2_000_000 },
  past: { fromUs: 2_000_000, toUs: 4_000_000 },
  sloMs: 100,
};

const call = (intendedS: number, latencyMs: number, more: Partial<CallLine> = {}): CallLine => ({
  ...{ type: "call", id: "c", stage: "gate", driver: "open-loop", org: "org_a", route: "chat.control" },
  ...{ intended_us: intendedS * 1e6, sent_us: intendedS * 1e6 + 500, first_us: null },
  ...{ done_us: intendedS * 1e6 + latencyMs * 1000, outcome: "200", clock_error_us: 0, ended: "done", ...more },
});

describe("a block", () => {
  test("tells latency from the intended moment, of whole answers in its steady part alone", () => {
    const lines = [
      ...[call(1, 10), call(1.5, 20), call(1.9, 30)],
      ...[call(0.9, 999), call(2, 999), call(1.2, 999, { outcome: "429 b2b_overloaded" })],
      ...[call(1.2, 999, { ended: "truncated" }), call(1.2, 999, { aborted: true })],
    ];
    expect(measureBlock(lines, PLAN)).toMatchObject({ latency_ms_p50: 20, latency_ms_p99: 29.8 });
  });

  test("tells goodput per second of its part past the capacity, by answers inside the objective alone", () => {
    const lines = [call(2, 50), call(3, 100), call(3.5, 101), call(3.9, 1, { outcome: "429 b2b_overloaded" })];
    expect(measureBlock(lines, PLAN).goodput).toBe(1);
  });

  test("has no latency without answers, and a goodput of zero", () => {
    expect(measureBlock([], PLAN)).toEqual({ latency_ms_p50: null, latency_ms_p99: null, goodput: 0 });
  });
});
