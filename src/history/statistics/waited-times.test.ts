import { expect, test } from "vitest";
import { WaitedTimes } from "../objective-verdicts.ts";
import { HISTOGRAM_RELATIVE_ERROR } from "./histogram.ts";

/** As many different times as there are, in no order. */
const timesOf = (n: number): WaitedTimes => {
  const times = new WaitedTimes();
  for (let i = 0; i < n; i++) times.add(1 + ((i * 7919) % n));
  return times;
};

test("few times are given back to the letter, in order", () => {
  const times = timesOf(1_000);
  expect(times.n).toBe(1_000);
  expect([1, 500, 1_000].map((rank) => times.at(rank)?.value)).toEqual([1, 500, 1_000]);
  expect([times.at(0), times.at(1_001)]).toEqual([undefined, undefined]);
});

test("what never came is longer than anything that did", () => {
  const times = new WaitedTimes();
  for (const ms of [3, Number.POSITIVE_INFINITY, 1]) times.add(ms);
  expect([1, 2, 3].map((rank) => times.at(rank)?.value)).toEqual([1, 3, Number.POSITIVE_INFINITY]);
});

test("of very many, each lies in its interval, which is as narrow as the histogram's buckets", () => {
  const n = 150_001;
  const times = timesOf(n);
  times.add(Number.POSITIVE_INFINITY);
  expect(times.n).toBe(n + 1);
  for (const rank of [1, 1_500, 75_000, 149_000, n]) {
    const { low, value, high } = times.at(rank) as NonNullable<ReturnType<WaitedTimes["at"]>>;
    expect(low).toBeLessThanOrEqual(rank);
    expect(high).toBeGreaterThanOrEqual(rank);
    expect(Math.abs(value / rank - 1)).toBeLessThanOrEqual(HISTOGRAM_RELATIVE_ERROR);
  }
  expect(times.at(n + 1)?.value).toBe(Number.POSITIVE_INFINITY);
});
