/** The formulas by which measurements are told: what each must keep for any data, and its coverage counted independently. */
import fc from "fast-check";
import { expect } from "vitest";
import {
  jainIndex,
  mean,
  quantile,
  quantileInterval,
  quantileRanks,
  wilsonInterval,
} from "../src/history/statistics/statistics.ts";
import { law } from "./laws/law.ts";

const RUNS = { quick: 500, nightly: 50_000 };
const valueArb = fc.integer({ min: -1_000_000, max: 1_000_000 });
const valuesArb = fc.array(valueArb, { minLength: 1, maxLength: 60 });
const ascending = (values: number[]): number[] => [...values].sort((a, b) => a - b);
const shareArb = fc.nat({ max: 1_000 }).map((permille) => permille / 1_000);

law(
  "a quantile lies within the data, grows with its share, and moves with the data",
  () =>
    fc.property(valuesArb, shareArb, shareArb, valueArb, (values, p, q, shift) => {
      const sorted = ascending(values);
      const [low, high] = [quantile(sorted, Math.min(p, q)), quantile(sorted, Math.max(p, q))] as [number, number];
      expect(low).toBeGreaterThanOrEqual(sorted[0] as number);
      expect(high).toBeLessThanOrEqual(sorted.at(-1) as number);
      expect(low).toBeLessThanOrEqual(high);
      const moved = quantile(
        sorted.map((value) => value + shift),
        p,
      ) as number;
      expect(moved).toBeCloseTo((quantile(sorted, p) as number) + shift, 4);
      expect([quantile(sorted, 0), quantile(sorted, 1)]).toEqual([sorted[0], sorted.at(-1)]);
    }),
  RUNS,
);

law(
  "the mean lies within the data and forgets its order",
  () =>
    fc.property(valuesArb, (values) => {
      const found = mean(values) as number;
      expect(found).toBeGreaterThanOrEqual(Math.min(...values));
      expect(found).toBeLessThanOrEqual(Math.max(...values));
      expect(mean(values.toReversed())).toBe(found);
    }),
  RUNS,
);

/** P(Bin(n, p) <= k) for every k, term by term from logarithms of factorials: slow, and another way than the product's. */
const binomialCdf = (n: number, p: number): number[] => {
  const logFactorial = [0];
  for (let k = 1; k <= n; k += 1) logFactorial.push((logFactorial[k - 1] as number) + Math.log(k));
  const of = (k: number): number => logFactorial[k] as number;
  let sum = 0;
  return Array.from({ length: n + 1 }, (_, k) => {
    sum += Math.exp(of(n) - of(k) - of(n - k) + k * Math.log(p) + (n - k) * Math.log1p(-p));
    return sum;
  });
};

law(
  "a quantile's ranks cover it with 95 %, both tails at most 2.5 %, and no closer ranks would",
  () =>
    fc.property(fc.integer({ min: 1, max: 1_500 }), fc.constantFrom(0.05, 0.25, 0.5, 0.75, 0.9, 0.99), (n, p) => {
      const ranks = quantileRanks(n, p);
      const cdf = binomialCdf(n, p);
      const upTo = (k: number): number => (k < 0 ? 0 : (cdf[k] as number));
      const allowed = 0.025 + 1e-9;
      if (ranks === null) {
        // Then one of the two tails cannot be had, not even with the least or the greatest sample.
        expect(upTo(0) > 0.025 - 1e-9 || 1 - upTo(n - 1) > 0.025 - 1e-9).toBe(true);
        return;
      }
      const { low, high } = ranks;
      expect(upTo(low - 1)).toBeLessThanOrEqual(allowed);
      expect(1 - upTo(high - 1)).toBeLessThanOrEqual(allowed);
      expect(upTo(low)).toBeGreaterThan(0.025 - 1e-9);
      expect(1 - upTo(high - 2)).toBeGreaterThan(0.025 - 1e-9);
    }),
  { quick: 200, nightly: 5_000 },
);

law(
  "a quantile's interval holds the sample quantile",
  () =>
    fc.property(fc.array(valueArb, { minLength: 1, maxLength: 400 }), fc.constantFrom(0.25, 0.5, 0.9), (values, p) => {
      const sorted = ascending(values);
      const interval = quantileInterval(sorted, p);
      if (interval === null) return;
      expect(interval.low).toBeLessThanOrEqual(quantile(sorted, p) as number);
      expect(interval.high).toBeGreaterThanOrEqual(quantile(sorted, p) as number);
    }),
  RUNS,
);

const proportionArb = fc.integer({ min: 1, max: 100_000 }).chain((n) => fc.tuple(fc.nat({ max: n }), fc.constant(n)));
law(
  "the interval of a proportion holds it, stays within 0 and 1, mirrors its opposite, and narrows with more data",
  () =>
    fc.property(proportionArb, fc.integer({ min: 2, max: 9 }), ([hits, n], more) => {
      const { low, high } = wilsonInterval(hits, n) as { low: number; high: number };
      expect(0 <= low && low <= hits / n && hits / n <= high && high <= 1).toBe(true);
      const mirror = wilsonInterval(n - hits, n) as { low: number; high: number };
      expect(mirror.low).toBeCloseTo(1 - high, 12);
      expect(mirror.high).toBeCloseTo(1 - low, 12);
      const wide = wilsonInterval(hits * more, n * more) as { low: number; high: number };
      expect(wide.high - wide.low).toBeLessThan(high - low);
    }),
  RUNS,
);

law(
  "fairness lies between 1/n and 1, and cares neither for scale nor for order",
  () =>
    fc.property(
      fc.array(fc.nat({ max: 1_000_000 }), { minLength: 1, maxLength: 20 }),
      fc.integer({ min: 1, max: 1e9 }),
      (shares, scale) => {
        const found = jainIndex(shares);
        if (shares.every((share) => share === 0)) {
          expect(found).toBeNull();
          return;
        }
        const fairness = found as number;
        expect(fairness).toBeGreaterThanOrEqual(1 / shares.length - 1e-12);
        expect(fairness).toBeLessThanOrEqual(1);
        expect(jainIndex(shares.map((share) => share * scale))).toBeCloseTo(fairness, 9);
        expect(jainIndex(shares.toReversed())).toBeCloseTo(fairness, 12);
        expect(jainIndex(shares.map(() => 7))).toBe(1);
      },
    ),
  RUNS,
);
