import { describe, expect, test } from "vitest";
import { Histogram } from "./histogram.ts";

/** A fixed sequence that looks random and covers microseconds to hours. */
const spread = (n: number): number[] => {
  let state = 12345;
  return Array.from({ length: n }, () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.round(10 ** ((state / 2147483648) * 10));
  });
};

describe("Histogram", () => {
  test("every quantile is within its stated error of the sample of that rank", () => {
    const values = spread(5000);
    const sorted = [...values].sort((a, b) => a - b);
    const histogram = Histogram.of(values);
    for (let percent = 1; percent <= 100; percent++) {
      const exact = sorted[Math.ceil((percent * 5000) / 100) - 1]!;
      const read = histogram.quantile(percent / 100)!;
      expect(Math.abs(read - exact) / exact).toBeLessThanOrEqual(1 / 1024);
    }
  });

  test("the bounds of a rank enclose the sample of that rank", () => {
    const values = spread(2000);
    const sorted = [...values].sort((a, b) => a - b);
    const histogram = Histogram.of(values);
    for (const [i, exact] of sorted.entries()) {
      const { low, value, high } = histogram.atRank(i + 1)!;
      expect(low).toBeLessThanOrEqual(exact);
      expect(high).toBeGreaterThanOrEqual(exact);
      expect(value).toBeGreaterThanOrEqual(low);
      expect(value).toBeLessThanOrEqual(high);
    }
  });

  test("buckets meet at every power of two without a gap or an overlap", () => {
    for (let exponent = 1; exponent <= 53; exponent++) {
      for (const value of [2 ** exponent - 2, 2 ** exponent - 1]) {
        const { low, high } = Histogram.of([value, value, value]).atRank(2)!;
        expect([low, high]).toEqual([value, value]);
        const wide = Histogram.of([0, value, Number.MAX_SAFE_INTEGER]).atRank(2)!;
        expect(wide.low).toBeLessThanOrEqual(value);
        expect(wide.high).toBeGreaterThanOrEqual(value);
        expect(wide.high - wide.low).toBeLessThanOrEqual(value / 512);
      }
    }
  });

  test("values below 1024 us, the least, the largest, the sum and the count are exact", () => {
    const histogram = Histogram.of([3, 200, 1023, 1_000_003]);
    expect([histogram.quantile(0.25), histogram.quantile(0.5), histogram.quantile(0.75)]).toEqual([3, 200, 1023]);
    expect(histogram.toJSON()).toMatchObject({ min: 3, max: 1_000_003, sum: 4 * 250_307.25, n: 4 });
    expect(histogram.quantile(1)).toBe(1_000_003);
  });

  test("merged parts are the whole, in either order", () => {
    const values = spread(999);
    const whole = JSON.stringify(Histogram.of(values));
    const left = Histogram.of(values.slice(0, 400));
    const right = Histogram.of(values.slice(400));
    expect(JSON.stringify(Histogram.of([]).merge(left).merge(right))).toBe(whole);
    expect(JSON.stringify(Histogram.of([]).merge(right).merge(left))).toBe(whole);
  });

  test("merged with itself it holds everything twice", () => {
    const histogram = Histogram.of([1, 2, 3]);
    histogram.merge(histogram);
    expect(JSON.stringify(histogram)).toBe(JSON.stringify(Histogram.of([1, 1, 2, 2, 3, 3])));
  });

  test("comes back from its JSON as it was", () => {
    const json = JSON.stringify(Histogram.of(spread(500)));
    expect(JSON.stringify(Histogram.fromJSON(JSON.parse(json)))).toBe(json);
    const empty = JSON.stringify(new Histogram());
    expect(JSON.stringify(Histogram.fromJSON(JSON.parse(empty)))).toBe(empty);
  });

  test("JSON that contradicts itself is refused", () => {
    const json = Histogram.of([10, 20]).toJSON();
    expect(() => Histogram.fromJSON({ ...json, n: 3 })).toThrow(RangeError);
    expect(() => Histogram.fromJSON({ ...json, max: 500 })).toThrow(RangeError);
    expect(() => Histogram.fromJSON({ ...json, min: null })).toThrow(RangeError);
    expect(() => Histogram.fromJSON({ ...json, counts: [[1e9, 2]] })).toThrow(RangeError);
    expect(() => Histogram.fromJSON({ ...json, schema: "other" as never })).toThrow(RangeError);
  });

  test("memory is bounded however far the values spread", () => {
    const histogram = new Histogram();
    for (let exponent = 0; exponent < 53; exponent += 0.001) histogram.record(2 ** exponent);
    expect(histogram.toJSON().counts.length).toBeLessThanOrEqual(45 * 512);
  });

  test("an empty one has no quantile, least or largest", () => {
    const histogram = new Histogram();
    expect(histogram.quantile(0.5)).toBeNull();
    expect(histogram.toJSON()).toMatchObject({ min: null, max: null, sum: 0, n: 0 });
    expect(histogram.atRank(1)).toBeNull();
  });

  test("a duration below zero counts as zero, what is no number is refused", () => {
    expect(Histogram.of([-3]).quantile(1)).toBe(0);
    expect(() => Histogram.of([Number.NaN])).toThrow(RangeError);
    expect(() => Histogram.of([Number.POSITIVE_INFINITY])).toThrow(RangeError);
    expect(() => new Histogram().record(1, 0.5)).toThrow(RangeError);
  });

  test("0.07 of 100 samples is the 7th, whatever doubles make of it", () => {
    expect(Histogram.of(Array.from({ length: 100 }, (_, i) => i + 1)).quantile(0.07)).toBe(7);
  });
});
