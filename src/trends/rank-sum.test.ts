import { describe, expect, test } from "vitest";
import { rankSumP, smallestRankSumP } from "./recorded-comparison.ts";

describe("the rank-sum test", () => {
  test("is exact: of ten choices of two of five, one is as high as the two highest", () => {
    expect(rankSumP([1, 2, 3], [4, 5])).toBeCloseTo(1 / 10, 12);
    expect(rankSumP([1, 2, 4], [3, 5])).toBeCloseTo(2 / 10, 12);
    expect(rankSumP([4, 5], [1, 2, 3])).toBeCloseTo(1, 12);
  });

  test("gives ties their mean rank, and shows nothing where all are equal or nothing is there", () => {
    expect(rankSumP([7, 7], [7, 7])).toBe(1);
    expect(rankSumP([1, 2], [])).toBe(1);
    // Of the six choices of two of 1, 2, 2, 3: {2, 3} twice reach the seen sum.
    expect(rankSumP([1, 2], [2, 3])).toBeCloseTo(2 / 6, 12);
  });

  test("has a smallest value that depends on the sizes alone", () => {
    expect(smallestRankSumP(3, 2)).toBeCloseTo(1 / 10, 12);
    expect(smallestRankSumP(6, 6)).toBeCloseTo(1 / 924, 12);
    expect(rankSumP([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12])).toBeCloseTo(smallestRankSumP(6, 6), 12);
  });
});
