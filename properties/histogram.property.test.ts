/**
 * The histogram keeps its promise for any durations: ranks and quantiles within the stated error of the sorted list, and
 * joining parts, in whatever order and shape, gives the histogram of the whole.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { Histogram } from "../src/history/statistics/histogram.ts";
import { law } from "./laws/law.ts";

/** As the comment of the histogram states it. */
const RELATIVE_ERROR = 1 / 1024;

const RUNS = { quick: 500, nightly: 50_000 };

/** Microseconds: exact ones, edges of buckets, and up to days. */
const durationArb = fc.oneof(
  fc.nat({ max: 600 }),
  fc.tuple(fc.nat({ max: 45 }), fc.integer({ min: -1, max: 1 })).map(([power, off]) => Math.max(0, 2 ** power + off)),
  fc.nat({ max: 1e11 }),
);
const durationsArb = fc.array(durationArb, { minLength: 1, maxLength: 200 });
const ascending = (values: number[]): number[] => [...values].sort((a, b) => a - b);

law(
  "the sample at every rank lies where the histogram says, within its error",
  () =>
    fc.property(durationsArb, (values) => {
      const histogram = Histogram.of(values);
      for (const [i, truth] of ascending(values).entries()) {
        const found = histogram.atRank(i + 1) as { low: number; value: number; high: number };
        expect(found.low).toBeLessThanOrEqual(truth);
        expect(found.high).toBeGreaterThanOrEqual(truth);
        expect(Math.abs(found.value - truth)).toBeLessThanOrEqual(truth * RELATIVE_ERROR);
      }
      expect([histogram.atRank(0), histogram.atRank(values.length + 1)]).toEqual([null, null]);
    }),
  RUNS,
);

law(
  "a quantile is the sample of its nearest rank, within the error",
  () =>
    fc.property(durationsArb, fc.nat({ max: 1_000 }), (values, permille) => {
      // In whole numbers, where the histogram has to do it in doubles.
      const rank = Math.max(1, Math.ceil((permille * values.length) / 1_000));
      const truth = ascending(values)[rank - 1] as number;
      const found = Histogram.of(values).quantile(permille / 1_000) as number;
      expect(Math.abs(found - truth)).toBeLessThanOrEqual(truth * RELATIVE_ERROR);
    }),
  RUNS,
);

law(
  "number, least, most and sum are exact",
  () =>
    fc.property(durationsArb, (values) => {
      const { n, min, max, sum: total } = Histogram.of(values).toJSON();
      expect([n, min, max]).toEqual([values.length, Math.min(...values), Math.max(...values)]);
      expect(total).toBe(values.reduce((sum, value) => sum + value, 0));
    }),
  RUNS,
);

law(
  "the parts joined in any order are the whole, and stay as they are",
  () =>
    fc.property(
      fc.array(fc.array(durationArb, { maxLength: 40 }), { minLength: 1, maxLength: 5 }).chain((parts) =>
        fc.record({
          parts: fc.constant(parts),
          order: fc.shuffledSubarray([...parts.keys()], { minLength: parts.length }),
        }),
      ),
      ({ parts, order }) => {
        const histograms = parts.map((part) => Histogram.of(part));
        const before = JSON.stringify(histograms);
        const joined = new Histogram();
        for (const i of order) joined.merge(histograms[i] as Histogram);
        expect(joined.toJSON()).toEqual(Histogram.of(parts.flat()).toJSON());
        expect(JSON.stringify(histograms)).toBe(before);
      },
    ),
  RUNS,
);

law(
  "recording one value n times is recording it once with a count",
  () =>
    fc.property(durationArb, fc.integer({ min: 1, max: 50 }), (value, count) => {
      const counted = new Histogram();
      counted.record(value, count);
      expect(counted.toJSON()).toEqual(Histogram.of(new Array<number>(count).fill(value)).toJSON());
    }),
  RUNS,
);
