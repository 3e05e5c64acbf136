import { expect, test } from "vitest";
import { exponential, uniform } from "../../workload/random.ts";
import { kolmogorovDistance, kolmogorovLimit } from "./statistics.ts";

// Massey, "The Kolmogorov-Smirnov Test for Goodness of Fit", JASA 46 (1951), table 1.
test.each([
  [10, 0.409, 0.486],
  [20, 0.294, 0.352],
  [30, 0.242, 0.29],
  [35, 0.224, 0.269],
])("for %i values the limits are those of the published table", (n, at05, at01) => {
  expect(kolmogorovLimit(n, 0.05)).toBeCloseTo(at05, 2);
  expect(kolmogorovLimit(n, 0.01)).toBeCloseTo(at01, 2);
});

test("the distance is the largest one, on either side of a step", () => {
  expect(kolmogorovDistance([0.5], (x) => x)).toBe(0.5);
  expect(kolmogorovDistance([0.1, 0.2, 0.3, 0.4], (x) => x)).toBeCloseTo(0.6, 12);
  expect(kolmogorovDistance([0.8, 0.9], (x) => x)).toBeCloseTo(0.8, 12);
  expect(() => kolmogorovDistance([], (x) => x)).toThrow(RangeError);
});

test("exponential gaps pass as such in 19 of 20 samples, and uniform ones do not", () => {
  const below = (x: number): number => 1 - Math.exp(-x);
  const passes = (draw: (seed: number, i: number) => number): number =>
    Array.from({ length: 200 }, (_, seed) => {
      const gaps = Array.from({ length: 300 }, (_, i) => draw(seed, i)).sort((a, b) => a - b);
      return kolmogorovDistance(gaps, below) <= kolmogorovLimit(300, 0.05);
    }).filter(Boolean).length;
  expect(passes((seed, i) => exponential(seed, i, 1))).toBeGreaterThan(178);
  expect(passes((seed, i) => 2 * uniform(seed, i, 1))).toBe(0);
});
