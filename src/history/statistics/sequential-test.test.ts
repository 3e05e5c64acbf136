import { describe, expect, test } from "vitest";
import { uniform } from "../../workload/random.ts";
import { callsToShow, sequentialLines } from "./statistics.ts";

describe("Wald's sequential test", () => {
  test("has the lines of the published example (NIST/SEMATECH e-Handbook, section 6.2.6)", () => {
    const { slope, accept, reject } = sequentialLines({ good: 0.01, bad: 0.1, falseAlarm: 0.05, missed: 0.1 });
    expect([accept, reject, slope].map((value) => Number(value.toFixed(4)))).toEqual([0.9389, 1.2054, 0.0397]);
  });

  test("keeps its errors, and ends sooner than a test of a fixed number of calls", () => {
    const plan = { good: 0.01, bad: 0.03, falseAlarm: 0.05, missed: 0.05 };
    const { slope, accept, reject } = sequentialLines(plan);
    const runs = 400;
    const play = (share: number, seed: number): { isBad: boolean; n: number } => {
      for (let n = 1, bad = 0; ; n++) {
        if (uniform(seed, n, 1) < share) bad += 1;
        const above = bad - slope * n;
        if (above >= reject) return { isBad: true, n };
        if (above <= -accept) return { isBad: false, n };
      }
    };
    const good = Array.from({ length: runs }, (_, seed) => play(plan.good, seed));
    const bad = Array.from({ length: runs }, (_, seed) => play(plan.bad, seed + runs));
    // 5 % and what 400 runs may be off by, three standard deviations.
    expect(good.filter(({ isBad }) => isBad).length).toBeLessThan(runs * 0.083);
    expect(bad.filter(({ isBad }) => !isBad).length).toBeLessThan(runs * 0.083);
    // A test of these errors with a number of calls fixed beforehand needs 590 (normal approximation).
    expect(good.reduce((sum, { n }) => sum + n, 0) / runs).toBeLessThan(400);
  });

  test("refuses what is no test", () => {
    expect(() => sequentialLines({ good: 0.1, bad: 0.1, falseAlarm: 0.05, missed: 0.05 })).toThrow(RangeError);
    expect(() => sequentialLines({ good: 0.1, bad: 0.2, falseAlarm: 0.5, missed: 0.05 })).toThrow(RangeError);
  });
});

describe("calls that it takes", () => {
  // Computed with SciPy's binomial distribution; 459, 662 and 838 are those of MLPerf's rules for p99.
  test.each([
    [0.1, [44, 64, 81, 127, 197, 325]],
    [0.05, [90, 130, 165, 259, 398, 656]],
    [0.01, [459, 662, 838, 1307, 2010, 3304]],
    [0.001, [4603, 6636, 8403, 13_105, 20_140, 33_097]],
  ])("to show that a share is below %f are MLPerf's", (limit, known) => {
    expect([0, 1, 2, 5, 10, 20].map((over) => callsToShow(limit, over, 0.01))).toEqual(known);
  });

  test("a limit is a share between 0 and 1", () => {
    expect(() => callsToShow(0, 0, 0.05)).toThrow(RangeError);
  });
});
