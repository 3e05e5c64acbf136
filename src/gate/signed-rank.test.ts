/** Known answers from published tables, and counting by hand for every case small enough. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PAIRS_MAX, signedRankP, smallestP, typicalDifference } from "./paired-comparison.ts";

/** Ranks 1 … n whose negative ones add up to `negative`: what a table is read by. */
const withNegativeSum = (n: number, negative: number): number[] => {
  let left = negative;
  const ranks = Array.from({ length: n }, (_, at) => n - at).map((rank) => {
    if (rank > left) return rank;
    left -= rank;
    return -rank;
  });
  expect(left).toBe(0);
  return ranks;
};

/** All 2^n choices of signs, one after the other. */
const byEnumeration = (differences: readonly number[]): number => {
  const told = differences.filter((difference) => difference !== 0);
  const sizes = told.map(Math.abs);
  const ranks = sizes.map(
    (size) => sizes.filter((other) => other < size).length + (sizes.filter((other) => other === size).length + 1) / 2,
  );
  const seen = ranks.reduce((sum, rank, at) => sum + ((told[at] as number) > 0 ? rank : 0), 0);
  let atLeast = 0;
  for (let signs = 0; signs < 2 ** ranks.length; signs += 1) {
    const sum = ranks.reduce((total, rank, at) => total + (Math.floor(signs / 2 ** at) % 2 === 1 ? rank : 0), 0);
    if (sum >= seen) atLeast += 1;
  }
  return atLeast / 2 ** ranks.length;
};

describe("the signed-rank test", () => {
  // One-sided critical values, with the tail that the published tables give to each in four digits.
  test.each([
    [5, 0, 0.03125],
    [8, 5, 0.0391],
    [10, 10, 0.042],
    [10, 5, 0.0098],
    [12, 17, 0.0461],
    [20, 60, 0.0487],
    [20, 43, 0.0096],
    [30, 151, 0.0481],
    [30, 120, 0.0098],
  ])(
    "with %i pairs gives a sum of negative ranks of at most %i the chance of the tables, %f",
    (n, negative, chance) => {
      expect(Math.abs(signedRankP(withNegativeSum(n, negative)) - chance)).toBeLessThanOrEqual(0.00005);
    },
  );

  test("agrees with the worked example of Hollander & Wolfe (depression scores, V = 40, p = 0.01953)", () => {
    const before = [1.83, 0.5, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.3];
    const after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
    const differences = before.map((value, at) => value - (after[at] as number));
    expect(signedRankP(differences)).toBe(0.01953125);
    expect(typicalDifference(differences)).toBeCloseTo(0.46, 5);
  });

  test("counts exactly what an enumeration of all signs counts, ties and zeros included", () => {
    const differences = fc.array(fc.integer({ min: -4, max: 4 }), { maxLength: 10 });
    fc.assert(
      fc.property(differences, (some) => {
        expect(signedRankP(some)).toBe(byEnumeration(some));
      }),
      { seed: 1, numRuns: 300 },
    );
  });

  test("says nothing of no differences, and of differences that are all zero", () => {
    expect(signedRankP([])).toBe(1);
    expect(signedRankP([0, 0, 0])).toBe(1);
  });

  test("cannot say less than its smallest value, which all positive differences have", () => {
    expect(signedRankP(Array.from({ length: 12 }, () => 1))).toBe(smallestP(12));
  });

  test("refuses what is not a number, and more pairs than it counts exactly", () => {
    expect(() => signedRankP([1, Number.NaN])).toThrow(RangeError);
    expect(() => signedRankP(Array.from({ length: PAIRS_MAX + 1 }, () => 1))).toThrow(/at most 50 pairs/);
  });
});

describe("the typical difference", () => {
  test("is the median of the means of all pairs, and nothing of nothing", () => {
    expect(typicalDifference([1, 2, 10])).toBe(3.75);
    expect(typicalDifference([4])).toBe(4);
    expect(typicalDifference([])).toBeNull();
  });
});
