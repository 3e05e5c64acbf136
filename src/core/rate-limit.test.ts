import { describe, expect, test } from "vitest";
import { takeRate } from "./rate-limit.ts";

/** Takes at these moments, in milliseconds; `.` is admitted, `x` refused. */
const takes = (perS: number, burst: number, timesMs: number[]): string => {
  let tatMs: number | undefined;
  return timesMs
    .map((atMs) => {
      const take = takeRate(tatMs, atMs, { perS, burst });
      tatMs = take.tatMs;
      return take.allowed ? "." : "x";
    })
    .join("");
};

describe("a key's rate", () => {
  test.each<[string, number, number, number[], string]>([
    ["a fresh key may burst", 10, 3, [0, 0, 0, 0, 0], "...xx"],
    ["then comes back at the rate", 10, 3, [0, 0, 0, 99, 100, 100, 200], "...x.x."],
    ["a pause fills the bucket, and not more than that", 10, 3, [0, 0, 0, 60_000, 60_000, 60_000, 60_000], "......x"],
    ["a burst of one is a pace", 10, 1, [0, 50, 99, 100, 150, 200], ".xx.x."],
    ["at the pace nobody is refused", 4, 1, [0, 250, 500, 750, 1000], "....."],
    ["a second's edge doubles nothing", 2, 2, [999, 999, 1000, 1000, 1001], "..xxx"],
  ])("%s", (_, perS, burst, timesMs, expected) => {
    expect(takes(perS, burst, timesMs)).toBe(expected);
  });

  test("an admitted call waits for nothing, and moves the key on by one interval", () => {
    expect(takeRate(undefined, 1_000, { perS: 10, burst: 1 })).toEqual({ allowed: true, tatMs: 1_100, waitMs: 0 });
    expect(takeRate(1_050, 1_000, { perS: 10, burst: 2 })).toEqual({ allowed: true, tatMs: 1_150, waitMs: 0 });
  });

  test("a refusal says how long to wait, and takes nothing", () => {
    expect(takeRate(1_300, 1_000, { perS: 10, burst: 1 })).toEqual({ allowed: false, tatMs: 1_300, waitMs: 300 });
  });
});
