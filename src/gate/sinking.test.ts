import { describe, expect, test } from "vitest";
import { uniform } from "../workload/random.ts";
import type { BlockValues } from "./block.ts";
import { risingP, sinkingOf } from "./gate-claims.ts";
import { NO_VALUES } from "./no-values.fixture.ts";
import type { Pair } from "./paired-comparison.ts";

const block = (goodput: number | null): BlockValues => ({ ...NO_VALUES, goodput });
const pairs = (heads: readonly (number | null)[]): Pair[] =>
  heads.map((head) => ({ base: block(100), head: block(head) }));

describe("the trend test", () => {
  test("is exact: one order of n! is the strictest, and a level row shows nothing", () => {
    expect(risingP([1, 2, 3, 4])).toBeCloseTo(1 / 24, 12);
    expect(risingP([1, 2, 4, 3])).toBeCloseTo(4 / 24, 12);
    expect(risingP([4, 3, 2, 1])).toBeCloseTo(1, 12);
    expect(risingP([1, 1, 1, 1])).toBeCloseTo(1, 12);
    expect(risingP([])).toBe(1);
  });
});

describe("a head that sinks", () => {
  test("is seen when it loses a little from pair to pair", () => {
    const heads = Array.from({ length: 12 }, (_, n) => 100 - 2 * n + 3 * uniform(1, n, 2));
    expect(sinkingOf(pairs(heads), 1.05, 0.003)).toMatchObject({ verdict: "sinks", pairs: 12 });
  });

  test("is seen when it is dead after a few", () => {
    const heads = [90, 40, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    expect(sinkingOf(pairs(heads), 1.05, 0.003).lostBy).toBeGreaterThan(20);
  });

  test("is not one that is worse throughout, nor one that scatters", () => {
    expect(sinkingOf(pairs(new Array(12).fill(50)), 1.05, 0.003).verdict).toBe("holds");
    const alarms = Array.from({ length: 500 }, (_, seed) =>
      sinkingOf(pairs(Array.from({ length: 12 }, (_, n) => 80 + 40 * uniform(seed, n, 2))), 1.05, 0.003),
    ).filter(({ verdict }) => verdict === "sinks").length;
    expect(alarms / 500).toBeLessThanOrEqual(0.01);
  });

  test("has nothing to lose when it carried nothing from the start", () => {
    expect(sinkingOf(pairs(new Array(12).fill(0)), 1.05, 0.003).verdict).toBe("nothing");
  });

  test("cannot be told from five pairs", () => {
    expect(sinkingOf(pairs([9, 8, 7, 6, 5, null]), 1.05, 0.003).verdict).toBe("too-few");
  });
});
