import { describe, expect, test } from "vitest";
import {
  arrivalTimesUs,
  constant,
  LOWEST_IF_GUESSED,
  levelsBeyond,
  PROFILES,
  type Profile,
  profileCalls,
  profileDurationS,
  ramp,
  scheduleOf,
  spike,
  upAndDown,
} from "./load-profiles.ts";

describe("schedules", () => {
  test("uniform arrivals at a constant rate stand exactly one period apart, the first at once", () => {
    expect(arrivalTimesUs(constant(4, 1), "uniform", 1)).toEqual([0, 250_000, 500_000, 750_000]);
  });

  test("uniform arrivals follow the integral of a ramp", () => {
    // 0 to 10 per second within 2 s: the k-th arrival is where 2.5 t² = k.
    expect(arrivalTimesUs(ramp(10, 2), "uniform", 1)).toEqual(
      Array.from({ length: 10 }, (_, k) => Math.round(Math.sqrt(k / 2.5) * 1e6)),
    );
  });

  test("every profile offers as many calls as its integral, in ascending order, within its length", () => {
    for (const [name, make] of Object.entries(PROFILES)) {
      const profile = make(200, 8);
      const times = arrivalTimesUs(profile, "uniform", 1);
      expect(Math.abs(times.length - profileCalls(profile)), name).toBeLessThanOrEqual(1);
      expect(times.every((at, k) => k === 0 || at >= (times[k - 1] as number))).toBe(true);
      expect(times.at(-1) as number).toBeLessThanOrEqual(profileDurationS(profile) * 1e6);
    }
  });

  test("random arrivals that keep a distance stay within a permit, and none is lost", () => {
    const busy = constant(90, 60);
    const times = arrivalTimesUs({ ...busy, leastGapUs: 10_000 }, "poisson", 7);
    const free = arrivalTimesUs(busy, "poisson", 7);
    expect(times).toHaveLength(free.length);
    expect(times.every((at, k) => k === 0 || at - (times[k - 1] as number) >= 10_000)).toBe(true);
    expect(times.every((at, k) => at >= (free[k] as number))).toBe(true);
    // Chance alone puts more than the permitted hundred into some second.
    expect(free.some((at, k) => (free[k + 100] ?? Number.POSITIVE_INFINITY) - at < 1e6)).toBe(true);
  });

  test("bursts leave nothing between them, and each tooth of a saw falls at once", () => {
    const on = arrivalTimesUs(PROFILES.bursts?.(100, 5) as Profile, "uniform", 1);
    expect(on).toHaveLength(125);
    expect(on.filter((us) => us % 1_000_000 > 250_000)).toEqual([]);
    const teeth = arrivalTimesUs(PROFILES.sawtooth?.(100, 4) as Profile, "uniform", 1);
    const inHalf = (half: number): number =>
      teeth.filter((us) => Math.floor((us % 1_000_000) / 500_000) === half).length;
    // A quarter of a triangle lies in the first half of its base.
    expect(inHalf(0) / teeth.length).toBeCloseTo(0.25, 1);
  });

  test("poisson arrivals depend on the seed alone, and their count is near the integral", () => {
    const profile = spike(100, 20);
    const times = arrivalTimesUs(profile, "poisson", 7);
    expect(times).toEqual(arrivalTimesUs(profile, "poisson", 7));
    expect(times).not.toEqual(arrivalTimesUs(profile, "poisson", 8));
    const expected = profileCalls(profile);
    expect(Math.abs(times.length - expected)).toBeLessThan(4 * Math.sqrt(expected));
  });

  test("gaps of poisson arrivals spread as an exponential does", () => {
    const times = arrivalTimesUs(constant(1000, 20), "poisson", 11);
    const longerThanMean = times.filter((at, k) => k > 0 && at - (times[k - 1] as number) > 1000).length;
    expect(longerThanMean / times.length).toBeCloseTo(Math.exp(-1), 1);
  });

  test("a profile of no rate at all offers nothing, and a piece of rate 0 is only waited out", () => {
    expect(arrivalTimesUs(constant(0, 5), "uniform", 1)).toEqual([]);
    const pause = { name: "pause", pieces: [...constant(0, 2).pieces, ...constant(2, 1).pieces] };
    expect(arrivalTimesUs(pause, "uniform", 1)).toEqual([2_000_000, 2_500_000]);
    expect(scheduleOf(constant(0, 5), "poisson", 1).next().done).toBe(true);
  });
});

test("a level of the curve ends when its calls are enough, and never before calls of that length have settled", () => {
  const lengths = (...of: Parameters<typeof upAndDown>): number[] =>
    upAndDown(...of).pieces.map((one) => one.durationS);
  const whole = lengths(1_000, 300);
  expect(whole.reduce((sum, s) => sum + s, 0)).toBeCloseTo(300);
  const [lowest = 0, ...others] = lengths(1_000, 300, 1e6, 0.2);
  expect(lowest).toBeCloseTo(9_604 / 500);
  expect(others[7]).toBe(8);
  expect(lengths(1_000, 300, 1e6, 1.5)[8]).toBeCloseTo(10.5);
  expect(lengths(80, 60, 1e6, 0.3)).toEqual(lengths(80, 60));
});

test("the curve ends at the permitted rate where that is between two levels", () => {
  const ratesOf = (maxPerS: number): number[] => upAndDown(10, 60, maxPerS).pieces.map(({ from }) => from);
  expect(ratesOf(82).slice(7, 11)).toEqual([50, 82, 50, 30]);
  expect(ratesOf(54).slice(6, 9)).toEqual([30, 50, 30]);
  expect(Math.max(...ratesOf(1_000))).toBe(100);
});

test("the levels that a curve does not reach are told, wherever it begins", () => {
  const beyond = (maxPerS: number, lowest?: number): number[] =>
    levelsBeyond(upAndDown(10, 60, maxPerS, undefined, lowest), lowest);
  expect(beyond(82)).toEqual([10]);
  expect(beyond(82, LOWEST_IF_GUESSED)).toEqual([10]);
  expect(beyond(40, LOWEST_IF_GUESSED)).toEqual([5, 10]);
  expect(beyond(1_000, LOWEST_IF_GUESSED)).toEqual([]);
});

test("the curve has its lowest level even where the permitted rate is below it", () => {
  expect(upAndDown(45, 240, 21.7).pieces.map(({ from }) => from)).toEqual([21.7]);
  expect(upAndDown(45, 240, 22.5).pieces.map(({ from }) => from)).toEqual([22.5]);
});
