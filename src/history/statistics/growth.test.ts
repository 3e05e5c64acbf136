import { expect, test } from "vitest";
import { judgeGrowth, type Reading } from "./growth.ts";

const MINUTE_MS = 60_000;
const EVERY_MS = 5_000;
/** One reading every five seconds. */
const readingsOf = (minutes: number, valueAt: (seconds: number) => number): Reading[] =>
  Array.from({ length: (minutes * MINUTE_MS) / EVERY_MS }, (_, at) => ({
    atMs: at * EVERY_MS,
    value: valueAt((at * EVERY_MS) / 1000),
  }));
/** With a tooth like that of a heap. */
const readings = (minutes: number, perHour: number, tooth = 1): Reading[] =>
  readingsOf(minutes, (seconds) => 100 + (perHour * seconds) / 3_600 + tooth * (((seconds / 5) * 7) % 5));

test("what holds still passes, what leaks fails, with the slope by the hour", () => {
  const calm = judgeGrowth(readings(30, 0), 20, "MB");
  expect(calm.verdict).toBe("pass");
  expect(Math.abs(calm.slope?.slope ?? 9)).toBeLessThan(1);
  const leak = judgeGrowth(readings(30, 60), 20, "MB");
  expect(leak).toMatchObject({ verdict: "fail" });
  expect(leak.slope?.slope).toBeCloseTo(60, 0);
  expect(leak.reason).toMatch(
    /grows by 60 MB an hour \(95 %: 60 to 60; 1795 s in 12 parts, each by its lowest reading\)/,
  );
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

/** Free memory until it is collected, every `periodS`, `ofMb` at a time. */
const garbage =
  (periodS: number, ofMb: number, fromS = 0) =>
  (seconds: number) =>
    (((seconds + fromS) % periodS) / periodS) * ofMb;

test.each([
  ["every half minute", 30, 0, "pass"],
  ["every five minutes", 300, 0, "inconclusive"],
  ["every ten minutes, from the middle of one", 600, 300, "inconclusive"],
  ["never in that time", 7_200, 0, "inconclusive"],
])("a heap whose garbage is collected %s does not leak", (_, periodS, fromS, verdict) => {
  const { verdict: came, reason } = judgeGrowth(readingsOf(19, garbage(periodS, 300, fromS)), 60, "MB", true);
  expect({ came, reason }).toMatchObject({ came: verdict });
});

test("a leak shows below the garbage, and without garbage from its growth alone", () => {
  const leaking = readingsOf(19, (seconds) => seconds / 15 + garbage(20, 16)(seconds));
  expect(judgeGrowth(leaking, 60, "MB", true)).toMatchObject({ verdict: "fail" });
  const growing = readingsOf(19, (seconds) => seconds / 15);
  expect(judgeGrowth(growing, 60, "MB", true)).toMatchObject({
    verdict: "inconclusive",
    reason: expect.stringMatching(/garbage/),
  });
  expect(judgeGrowth(growing, 60, "MB")).toMatchObject({ verdict: "fail" });
});

test("a cache that fills up is no leak", () => {
  const filling = readingsOf(19, (seconds) => 200 * (1 - Math.exp(-seconds / 300)));
  expect(judgeGrowth(filling, 60, "MB")).toMatchObject({
    verdict: "inconclusive",
    reason: expect.stringMatching(/less and less/),
  });
});
