/**
 * The rate limit (item 230): in any window of w seconds at most burst + rate x w calls, and no conforming call refused.
 * Judged against a leaky bucket counted in whole thousandths of a call, which shares no arithmetic with the core's GCRA.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { type Rate, type RateTake, takeRate } from "../src/core/rate-limit.ts";
import { NOW_MS } from "./support/arbitraries.ts";
import { law } from "./support/law.ts";

const RUNS = { quick: 400, nightly: 40_000 };

/** Gaps between calls: bursts, the pace of the rate itself, and pauses. */
const gapsArb = fc.array(fc.oneof(fc.constant(0), fc.nat({ max: 5 }), fc.nat({ max: 100 }), fc.nat({ max: 5_000 })), {
  minLength: 1,
  maxLength: 120,
});
/** Rates whose interval is whole milliseconds: then nothing is rounded, and the two must agree to the call. */
const wholeRateArb: fc.Arbitrary<Rate> = fc.record({
  perS: fc.constantFrom(1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 250, 500, 1_000),
  burst: fc.integer({ min: 1, max: 20 }),
});
const anyRateArb: fc.Arbitrary<Rate> = fc.record({
  perS: fc.integer({ min: 1, max: 3_000 }),
  burst: fc.integer({ min: 1, max: 200 }),
});

type Taken = { atMs: number; take: RateTake };
const takeAll = (rate: Rate, timesMs: number[]): Taken[] => {
  let tatMs: number | undefined;
  return timesMs.map((atMs) => {
    const take = takeRate(tatMs, atMs, rate);
    tatMs = take.tatMs;
    return { atMs, take };
  });
};
const timesOf = (gaps: number[], startMs = NOW_MS): number[] => {
  let at = startMs;
  return gaps.map((gap) => {
    at += gap;
    return at;
  });
};

/** Thousandths of a call: a millisecond brings `perS` of them, a call costs a thousand, the bucket holds burst calls. */
const leakyBucket = ({ perS, burst }: Rate) => {
  let level = burst * 1000;
  let lastMs = Number.NaN;
  return {
    levelAt: (atMs: number): number => {
      if (!Number.isNaN(lastMs)) level = Math.min(burst * 1000, level + (atMs - lastMs) * perS);
      lastMs = atMs;
      return level;
    },
    spend: (): void => {
      level -= 1000;
    },
  };
};

law(
  "in any window of w seconds at most burst + rate x w calls are admitted",
  () =>
    fc.property(anyRateArb, gapsArb, (rate, gaps) => {
      const admitted = takeAll(rate, timesOf(gaps)).filter(({ take }) => take.allowed);
      for (let from = 0; from < admitted.length; from += 1) {
        for (let to = from; to < admitted.length; to += 1) {
          const windowS = ((admitted[to] as Taken).atMs - (admitted[from] as Taken).atMs) / 1000;
          // A thousandth of a call for the rounding of an interval that is no whole number of milliseconds.
          expect(to - from + 1).toBeLessThanOrEqual(rate.burst + rate.perS * windowS + 0.001 * rate.perS);
        }
      }
    }),
  RUNS,
);

law(
  "a call is admitted exactly when a leaky bucket has room for it",
  () =>
    fc.property(wholeRateArb, gapsArb, (rate, gaps) => {
      const bucket = leakyBucket(rate);
      for (const { atMs, take } of takeAll(rate, timesOf(gaps))) {
        const room = bucket.levelAt(atMs) >= 1000;
        expect({ atMs, allowed: take.allowed }).toEqual({ atMs, allowed: room });
        if (room) bucket.spend();
      }
    }),
  RUNS,
);

law(
  "an interval that is no whole number of milliseconds decides the same but within a hundredth of a millisecond",
  () =>
    fc.property(anyRateArb, gapsArb, (rate, gaps) => {
      const bucket = leakyBucket(rate);
      // Two roundings, each the last digit of a time since 1970, for each call.
      const slack = 0.01 * rate.perS;
      for (const { atMs, take } of takeAll(rate, timesOf(gaps))) {
        const level = bucket.levelAt(atMs);
        if (level >= 1000 + slack) expect({ atMs, level, ...take }).toMatchObject({ allowed: true });
        if (level < 1000 - slack) expect({ atMs, level, ...take }).toMatchObject({ allowed: false });
        if (take.allowed) bucket.spend();
      }
    }),
  RUNS,
);

law(
  "a refused call that comes again after its wait is admitted, and not before",
  () =>
    fc.property(anyRateArb, gapsArb, (rate, gaps) => {
      for (const { atMs, take } of takeAll(rate, timesOf(gaps))) {
        if (take.allowed) continue;
        expect(take.waitMs).toBeGreaterThan(0);
        expect(takeRate(take.tatMs, atMs + Math.ceil(take.waitMs + 0.01), rate).allowed).toBe(true);
        expect(takeRate(take.tatMs, atMs + take.waitMs - 0.01, rate).allowed).toBe(false);
      }
    }),
  RUNS,
);

law(
  "a refusal takes nothing, so asking in vain delays nobody",
  () =>
    fc.property(anyRateArb, gapsArb, fc.nat({ max: 20 }), (rate, gaps, vain) => {
      let tatMs: number | undefined;
      for (const atMs of timesOf(gaps)) {
        const take = takeRate(tatMs, atMs, rate);
        if (!take.allowed) {
          for (let i = 0; i < vain; i += 1) expect(takeRate(take.tatMs, atMs, rate)).toEqual(take);
          expect(take.tatMs).toBe(tatMs);
        }
        tatMs = take.tatMs;
      }
    }),
  RUNS,
);

law(
  "a clock that jumps admits no more than its whole span allows",
  () =>
    fc.property(wholeRateArb, fc.array(fc.nat({ max: 10_000 }), { minLength: 1, maxLength: 100 }), (rate, times) => {
      const admitted = takeAll(rate, times).filter(({ take }) => take.allowed).length;
      const spanS = (Math.max(...times) - Math.min(...times)) / 1000;
      expect(admitted).toBeLessThanOrEqual(rate.burst + rate.perS * spanS);
    }),
  RUNS,
);
