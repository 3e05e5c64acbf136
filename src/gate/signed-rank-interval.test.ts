import { describe, expect, test } from "vitest";
import { uniform } from "../workload/random.ts";
import { signedRankP, typicalInterval } from "./paired-comparison.ts";

const sample = (n: number, seed: number, shift = 0): number[] =>
  Array.from({ length: n }, (_, i) => uniform(seed, i, 1) + uniform(seed, i, 2) - 1 + shift);

describe("the interval of the typical difference", () => {
  test("is the one of the book's table: the 14th smallest mean of twelve differences and the 14th largest", () => {
    const powers = Array.from({ length: 12 }, (_, n) => 3 ** n);
    const means = powers.flatMap((a, i) => powers.slice(i).map((b) => (a + b) / 2)).sort((a, b) => a - b);
    expect(typicalInterval(powers)).toEqual({ low: means[13], high: means[means.length - 14] });
  });

  test("holds exactly the shifts that the test does not reject", () => {
    for (let seed = 0; seed < 20; seed += 1) {
      const differences = sample(12, seed);
      const { low, high } = typicalInterval(differences) as { low: number; high: number };
      const above = (shift: number): number => signedRankP(differences.map((difference) => difference - shift));
      expect(above(low - 1e-6)).toBeLessThanOrEqual(0.025);
      expect(above(low + 1e-6)).toBeGreaterThan(0.025);
      const below = (shift: number): number => signedRankP(differences.map((difference) => shift - difference));
      expect(below(high + 1e-6)).toBeLessThanOrEqual(0.025);
      expect(below(high - 1e-6)).toBeGreaterThan(0.025);
    }
  });

  test("covers the truth as often as it says", () => {
    const runs = 2_000;
    const covered = Array.from({ length: runs }, (_, seed) => typicalInterval(sample(12, seed, 0.3))).filter(
      (interval) => interval !== null && interval.low <= 0.3 && interval.high >= 0.3,
    ).length;
    expect(covered / runs).toBeGreaterThan(0.94);
  });

  test("is not there below six", () => {
    expect(typicalInterval([1, 2, 3, 4, 5])).toBeNull();
    expect(typicalInterval([1, 2, 3, 4, 5, 6])).toEqual({ low: 1, high: 6 });
    expect(typicalInterval([])).toBeNull();
  });
});
