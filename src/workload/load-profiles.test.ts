import { describe, expect, test } from "vitest";
import { arrivalTimesUs, profileCalls, profileDurationS, scaleProfile, traceProfile } from "./load-profiles.ts";

const AT = Date.UTC(2026, 9, 10, 20, 55, 36);

describe("a trace", () => {
  test("keeps the moments of the log, whatever arrivals are asked for", () => {
    const profile = traceProfile([AT + 10, AT + 30, AT + 1250]);
    expect(arrivalTimesUs(profile, "poisson", 1)).toEqual([0, 20_000, 1_240_000]);
    expect(arrivalTimesUs(profile, "uniform", 2)).toEqual([0, 20_000, 1_240_000]);
    expect(profileCalls(profile)).toBe(3);
    expect(profileDurationS(profile)).toBe(2);
  });

  test("with a long silence is as short to say as its calls", () => {
    const profile = traceProfile([0, 300, 5e12, 5e12 + 1500]);
    expect(profile.pieces.map(({ from, durationS }) => [from, durationS])).toEqual([
      [2, 1],
      [0, 5e9 - 1],
      [1, 1],
      [1, 1],
    ]);
    expect(profileDurationS(profile)).toBe(5e9 + 2);
  });

  test("runs faster or slower with the same calls, by the rate that is wished", () => {
    const log = Array.from({ length: 101 }, (_, k) => AT + 0.5 + 100 * k);
    const twice = traceProfile(log, { ratePerS: 20 });
    expect(twice.momentsUs).toHaveLength(101);
    expect(twice.momentsUs?.at(-1)).toBe(5_000_000);
    expect(scaleProfile(twice, 0.5).momentsUs?.at(-1)).toBe(10_000_000);
    expect(traceProfile(log, { ratePerS: 20, durationS: 2 }).momentsUs).toHaveLength(40);
  });
});
