import { describe, expect, test } from "vitest";
import { arrivalTimesUs, profileDurationS } from "../workload/load-profiles.ts";
import { callsOfBlock, loadFor, looksFrom, orderOf, pairTakesS, partsOfBlock, profileOfBlock } from "./block-plan.ts";

describe("the looks", () => {
  test("grow to thirty pairs", () => {
    expect(looksFrom(12)).toEqual([12, 20, 30]);
    expect(looksFrom(25)).toEqual([25, 30]);
    expect(looksFrom(30)).toEqual([30]);
    expect(looksFrom(2)).toEqual([2, 12, 20, 30]);
  });
});

describe("the order of a pair", () => {
  test("comes from the seed, and turns round in the next pair", () => {
    for (let seed = 0; seed < 20; seed += 1) {
      for (let pair = 0; pair < 12; pair += 2) {
        expect([...orderOf(seed, pair)].reverse()).toEqual(orderOf(seed, pair + 1));
      }
    }
    expect(new Set(Array.from({ length: 20 }, (_, seed) => orderOf(seed, 0)[0]))).toEqual(new Set(["base", "head"]));
  });
});

describe("a block's load", () => {
  test("is 0.7 and 2 times the capacity, and no more than the target may be sent", () => {
    expect(loadFor(100)).toMatchObject({ lowPerS: 70, overloadPerS: 200 });
    expect(loadFor(100, 120)).toMatchObject({ lowPerS: 70, overloadPerS: 120 });
    expect(loadFor(10).lowS).toBeGreaterThan(loadFor(1000).lowS);
  });

  test("offers as many calls as it says, within its parts", () => {
    const load = loadFor(80);
    const times = arrivalTimesUs(profileOfBlock(load), "uniform", 1);
    const { steady, past } = partsOfBlock(load, 5e6);
    expect(Math.abs(times.length - callsOfBlock(load))).toBeLessThanOrEqual(2);
    expect(steady.toUs).toBe(past.fromUs);
    expect(past.toUs - 5e6).toBeCloseTo(profileDurationS(profileOfBlock(load)) * 1e6, 0);
    const low = times.filter((at) => at + 5e6 >= steady.fromUs && at + 5e6 < steady.toUs).length;
    expect(low).toBeCloseTo(load.lowPerS * load.lowS, -1);
  });

  test("of twelve pairs fits into six minutes, whatever the capacity", () => {
    for (const perS of [1, 10, 40, 300, 5_000]) expect(12 * pairTakesS(loadFor(perS))).toBeLessThanOrEqual(400);
    expect(12 * pairTakesS(loadFor(80))).toBeLessThanOrEqual(300);
  });
});
