/**
 * The rate limit as a function of what decides it, and an independent leaky bucket to compare it with: for the test, and
 * for mutants (mutant-laws.ts).
 */
import fc from "fast-check";
import { type Rate, type RateTake, takeRate } from "../../src/core/rate-limit.ts";
import { NOW_MS } from "../model/arbitraries.ts";

/** Gaps between calls: bursts, the pace of the rate itself, and pauses. */
export const gapsArb = fc.array(
  fc.oneof(fc.constant(0), fc.nat({ max: 5 }), fc.nat({ max: 100 }), fc.nat({ max: 5_000 })),
  {
    minLength: 1,
    maxLength: 120,
  },
);
/** Rates whose interval is whole milliseconds: nothing is rounded, so limit and bucket must agree on every call. */
export const wholeRateArb: fc.Arbitrary<Rate> = fc.record({
  perS: fc.constantFrom(1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 250, 500, 1_000),
  burst: fc.integer({ min: 1, max: 20 }),
});
export const anyRateArb: fc.Arbitrary<Rate> = fc.record({
  perS: fc.integer({ min: 1, max: 3_000 }),
  burst: fc.integer({ min: 1, max: 200 }),
});

type Taken = { atMs: number; take: RateTake };
export const takeAll = (rate: Rate, timesMs: number[], decide: typeof takeRate = takeRate): Taken[] => {
  let tatMs: number | undefined;
  return timesMs.map((atMs) => {
    const take = decide(tatMs, atMs, rate);
    tatMs = take.tatMs;
    return { atMs, take };
  });
};
export const timesOf = (gaps: number[], startMs = NOW_MS): number[] => {
  let at = startMs;
  return gaps.map((gap) => {
    at += gap;
    return at;
  });
};

/** Counts in thousandths of a call: a millisecond adds `perS`, a call costs a thousand, the bucket holds `burst` calls. */
export const leakyBucket = ({ perS, burst }: Rate) => {
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

export const noWindowHoldsMore = (decide: typeof takeRate) =>
  fc.property(anyRateArb, gapsArb, (rate, gaps) => {
    const admitted = takeAll(rate, timesOf(gaps), decide).filter(({ take }) => take.allowed);
    for (let from = 0; from < admitted.length; from += 1) {
      for (let to = from; to < admitted.length; to += 1) {
        const windowS = ((admitted[to] as Taken).atMs - (admitted[from] as Taken).atMs) / 1000;
        // Adds a millisecond's calls, because an interval that is no whole number of milliseconds is rounded.
        const most = rate.burst + rate.perS * windowS + 0.001 * rate.perS;
        const calls = to - from + 1;
        if (calls > most) throw new Error(`expected at most ${most} calls in ${windowS} s, got ${calls}`);
      }
    }
  });

export const admitsAsALeakyBucket = (decide: typeof takeRate) =>
  fc.property(wholeRateArb, gapsArb, (rate, gaps) => {
    const bucket = leakyBucket(rate);
    for (const { atMs, take } of takeAll(rate, timesOf(gaps), decide)) {
      const room = bucket.levelAt(atMs) >= 1000;
      if (take.allowed !== room) throw new Error(`expected a call ${room ? "admitted" : "refused"}, got the other`);
      if (room) bucket.spend();
    }
  });
