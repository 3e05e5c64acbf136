import { expect, test } from "vitest";
import { judgeGrowth, type Reading } from "./growth.ts";

const MINUTE_MS = 60_000;
/** One reading every five seconds, with a tooth like that of a heap. */
const readings = (minutes: number, perHour: number, tooth = 1): Reading[] =>
  Array.from({ length: (minutes * MINUTE_MS) / 5_000 }, (_, at) => ({
    atMs: at * 5_000,
    value: 100 + (perHour * at * 5_000) / 3_600_000 + tooth * ((at * 7) % 5),
  }));

test("what holds still passes, what leaks fails, with the slope by the hour", () => {
  const calm = judgeGrowth(readings(30, 0), 20, "MB");
  expect(calm.verdict).toBe("pass");
  expect(Math.abs(calm.slope?.slope ?? 9)).toBeLessThan(1);
  const leak = judgeGrowth(readings(30, 60), 20, "MB");
  expect(leak).toMatchObject({ verdict: "fail" });
  expect(leak.slope?.slope).toBeCloseTo(60, 0);
  expect(leak.reason).toMatch(/grows by 60 MB an hour \(95 %: 60 to 60, 360 readings over 1795 s\)/);
});

test("one jump that stays is no leak", () => {
  const jumped = readings(30, 0).map(({ atMs, value }) => ({
    atMs,
    value: atMs > 25 * MINUTE_MS ? value + 30 : value,
  }));
  expect(judgeGrowth(jumped, 30, "MB").verdict).toBe("pass");
});

test("too few readings, too short a time, and doubt about the figure are inconclusive", () => {
  expect(judgeGrowth(readings(1, 0), 20, "MB")).toMatchObject({ verdict: "inconclusive", slope: null });
  expect(judgeGrowth([], 20, "MB").verdict).toBe("inconclusive");
  expect(judgeGrowth(readings(3, 20, 5), 20, "MB")).toMatchObject({ verdict: "inconclusive" });
});
