import { describe, expect, test } from "vitest";
import { carriedPerS, type KneeOfLevels, kneeOfLevels, refusedShare } from "./knee.ts";

describe("what chance refuses", () => {
  // Erlang's B by tables: the share of the slots in use at a multiple of what they complete.
  test.each([
    [8, 1, 0.764],
    [8, 2, 0.91],
    [32, 1, 0.871],
    [32, 1.5, 0.952],
    [128, 1, 0.933],
    [128, 10, 0.999],
  ])("of %i slots %f times of which are offered: %f in use", (slots, times, inUse) => {
    expect(times * (1 - refusedShare(times, slots, slots))).toBeCloseTo(inUse, 3);
  });

  test("is less with room to wait, and that of one part where replicas share the load", () => {
    expect(refusedShare(1, 8, 16)).toBeLessThan(refusedShare(1, 8, 8));
    const four = { perS: 80, slots: 16, places: 16, replicas: 4 };
    expect(carriedPerS(four, 80)).toBeCloseTo(80 * (1 - refusedShare(1, 4, 4)), 9);
    expect(refusedShare(0.001, 4096, 4096)).toBe(0);
  });
});

test("where nothing is carried past the knee, the level that carried most shows it", () => {
  const level = (ratePerS: number, ...batches: number[]) => ({ ratePerS, batches, isQueue: false });
  const past = [level(120, 0, 0, 0), level(200, 0, 0, 0)];
  const all = [level(40, 39, 41, 40), level(72, 70, 74, 72), ...past];
  const found = kneeOfLevels(past, all, { most: 16, stayS: 0.2 });
  expect(found).toMatchObject({ knee: { value: 72 }, systems: [] });
  expect(kneeOfLevels([], all, { most: 16, stayS: 0.2 })).toBeNull();
});

test("replicas of few places, which would refuse below the knee as well, do not widen the knee of a queue", () => {
  const queue = { perS: 57, slots: 8, places: 37, replicas: 1 };
  const all = [0.5, 0.7, 0.9, 1, 1.5, 2].map((times) => {
    const carried = carriedPerS(queue, 57 * times);
    return { ratePerS: 57 * times, batches: [1.13, 0.96, 0.93, 1.14, 0.88].map((by) => by * carried), isQueue: false };
  });
  const { knee } = kneeOfLevels(all.slice(4), all, { most: 37, stayS: 8 / 57 }) as KneeOfLevels;
  expect(knee.low).toBeGreaterThan(50);
  expect(knee.high).toBeLessThan(70);
});
