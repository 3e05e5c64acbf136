/**
 * The one schedule: when each call is due, fixed before the first leaves. Latency counts from that moment, so a stall cannot
 * hide the calls that it delayed (coordinated omission). The k-th arrival is where the integral of the rate reaches the
 * k-th point of a unit process: k for `uniform`, the sum of k exponential gaps for `poisson`.
 */
import type { Profile } from "./load-profiles.ts";
import { exponential } from "./random.ts";

export type Arrivals = "uniform" | "poisson";

/** If more than one call in a hundred leaves later than this, no claim about time is made. */
export const LATE_MS = 250;

const GAP_SALT = 0x41525256;

/** Seconds into a piece at which `wanted` calls have been offered; the rate runs linearly from `from` to `to`. */
const secondsUntil = (wanted: number, from: number, to: number, durationS: number): number => {
  if (wanted <= 0) return 0;
  const slope = (to - from) / durationS;
  if (Math.abs(slope) < 1e-12) return wanted / from;
  // from·t + slope·t²/2 = wanted, solved without subtracting two near numbers.
  return (2 * wanted) / (from + Math.sqrt(Math.max(0, from * from + 2 * slope * wanted)));
};

/**
 * Yields the arrivals of a profile in constant memory: microseconds after the start, ascending. Those of a trace stay as they are.
 */
export function* scheduleOf({ pieces, momentsUs }: Profile, arrivals: Arrivals, seed: number): Generator<number> {
  if (momentsUs !== undefined) {
    yield* momentsUs;
    return;
  }
  let k = 0;
  let point = arrivals === "uniform" ? 0 : exponential(seed, 0, GAP_SALT);
  let offeredBefore = 0;
  let secondsBefore = 0;
  for (const { from, to, durationS } of pieces) {
    const offered = ((from + to) / 2) * durationS;
    while (point < offeredBefore + offered) {
      yield Math.round((secondsBefore + secondsUntil(point - offeredBefore, from, to, durationS)) * 1e6);
      k += 1;
      point = arrivals === "uniform" ? k : point + exponential(seed, k, GAP_SALT);
    }
    offeredBefore += offered;
    secondsBefore += durationS;
  }
}

export const countArrivals = (...of: Parameters<typeof scheduleOf>): number => {
  let count = 0;
  for (const _ of scheduleOf(...of)) count += 1;
  return count;
};

export const arrivalTimesUs = (...of: Parameters<typeof scheduleOf>): number[] => [...scheduleOf(...of)];
