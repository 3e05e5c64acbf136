/**
 * The rate limit (item 230): in any window of w seconds at most burst + rate x w calls, and no conforming call refused.
 * Judged against a leaky bucket counted in whole thousandths of a call, which shares no arithmetic with the core's GCRA.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { takeRate } from "../src/core/rate-limit.ts";
import { law } from "./laws/law.ts";
import {
  admitsAsALeakyBucket,
  anyRateArb,
  gapsArb,
  leakyBucket,
  noWindowHoldsMore,
  takeAll,
  timesOf,
  wholeRateArb,
} from "./laws/rate-laws.ts";

const RUNS = { quick: 400, nightly: 40_000 };

law("in any window of w seconds at most burst + rate x w calls are admitted", () => noWindowHoldsMore(takeRate), RUNS);

law("a call is admitted exactly when a leaky bucket has room for it", () => admitsAsALeakyBucket(takeRate), RUNS);

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
