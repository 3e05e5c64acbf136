import { describe, expect, test } from "vitest";
import {
  callsForInterval,
  exactInterval,
  jainIndex,
  mean,
  median,
  quantile,
  quantileInterval,
  quantileRanks,
  wilsonInterval,
} from "./statistics.ts";

describe("quantile", () => {
  test("is R's type 7", () => {
    const sorted = [15, 20, 35, 40, 50];
    expect(quantile(sorted, 0.4)).toBeCloseTo(29, 12);
    expect(quantile(sorted, 0.05)).toBeCloseTo(16, 12);
    expect(quantile(sorted, 0.99)).toBeCloseTo(49.6, 12);
    expect([quantile(sorted, 0), quantile(sorted, 1)]).toEqual([15, 50]);
  });

  test("of nothing is nothing, and of one is that one", () => {
    expect(quantile([], 0.5)).toBeNull();
    expect(quantile([7], 0.99)).toBe(7);
  });

  test("refuses a percentage in place of a share", () => {
    expect(() => quantile([1, 2], 99)).toThrow(RangeError);
  });
});

describe("median", () => {
  test("is the one in the middle of values in any order, or lies between the two in the middle", () => {
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([3, 1, 2])).toBe(2);
    expect(median([])).toBeNull();
  });
});

describe("quantileRanks", () => {
  // Checked against the binomial distribution of SciPy 1.17.
  test.each([
    [10, 0.5, 2, 9],
    [100, 0.5, 40, 61],
    [1000, 0.99, 983, 997],
    [10_000, 0.99, 9880, 9920],
    [100_000, 0.99, 98_938, 99_062],
    [1_000_000, 0.9, 899_412, 900_589],
  ])("of %i samples around the quantile %f are the known ones", (n, p, low, high) => {
    expect(quantileRanks(n, p)).toEqual({ low, high });
  });

  test.each([
    [6, 0.5],
    [36, 0.9],
    [368, 0.99],
    [3688, 0.999],
  ])("%i samples are just enough for the quantile %f, one less is too few", (n, p) => {
    expect(quantileRanks(n, p)).toMatchObject({ high: n });
    expect(quantileRanks(n - 1, p)).toBeNull();
    expect(callsForInterval(p)).toBe(n);
  });

  test("the least and the largest possible value have no interval", () => {
    expect(quantileRanks(1000, 0)).toBeNull();
    expect(quantileRanks(1000, 1)).toBeNull();
    expect(quantileRanks(0, 0.5)).toBeNull();
  });

  test("pick the samples of the interval", () => {
    const sorted = Array.from({ length: 100 }, (_, i) => i * 10);
    expect(quantileInterval(sorted, 0.5)).toEqual({ low: 390, high: 600 });
    expect(quantileInterval(sorted, 0.99)).toBeNull();
  });
});

describe("exactInterval", () => {
  // Checked against binomtest(...).proportion_ci(method="exact") of SciPy 1.17.
  test.each([
    [0, 10, 0, 0.3085],
    [1, 10, 0.0025, 0.445],
    [5, 10, 0.1871, 0.8129],
    [10, 10, 0.6915, 1],
    [6, 300, 0.0074, 0.043],
  ])("%i of %i", (hits, n, low, high) => {
    const interval = exactInterval(hits, n)!;
    expect(interval.low).toBeCloseTo(low, 4);
    expect(interval.high).toBeCloseTo(high, 4);
  });

  test("of nothing is none, and more hits than calls are an error", () => {
    expect(exactInterval(0, 0)).toBeNull();
    expect(() => exactInterval(3, 2)).toThrow(RangeError);
    expect(exactInterval(40_000, 1_000_000)!.low).toBeCloseTo(0.0396, 4);
  });
});

describe("wilsonInterval", () => {
  // Checked against binomtest(...).proportion_ci(method="wilson") of SciPy 1.17.
  test.each([
    [10, 100, 0.05522913706067508, 0.17436566150491345],
    [0, 10, 0, 0.27753279986288926],
    [10, 10, 0.7224672001371109, 1],
    [1, 2, 0.09453120573423074, 0.9054687942657693],
  ])("of %i in %i is the known one", (hits, n, low, high) => {
    const interval = wilsonInterval(hits, n)!;
    expect(interval.low).toBeCloseTo(low, 12);
    expect(interval.high).toBeCloseTo(high, 12);
  });

  test("of none out of none is unknown, of more than all is an error", () => {
    expect(wilsonInterval(0, 0)).toBeNull();
    expect(() => wilsonInterval(3, 2)).toThrow(RangeError);
  });
});

describe("jainIndex", () => {
  test("is 1 for equal shares and 1/n where one has all", () => {
    expect(jainIndex([5, 5, 5, 5])).toBe(1);
    expect(jainIndex([8, 0, 0, 0])).toBe(0.25);
    expect(jainIndex([1, 2, 3])).toBeCloseTo(36 / 42, 12);
  });

  test("does not depend on the scale, nor overflow", () => {
    expect(jainIndex([1e200, 2e200, 3e200])).toBeCloseTo(36 / 42, 12);
  });

  test("is unknown where nobody has anything, and refuses a negative share", () => {
    expect(jainIndex([])).toBeNull();
    expect(jainIndex([0, 0])).toBeNull();
    expect(() => jainIndex([1, -1])).toThrow(RangeError);
  });
});

test("the mean of nothing is unknown", () => {
  expect(mean([])).toBeNull();
  expect(mean([1, 2, 6])).toBe(3);
});
