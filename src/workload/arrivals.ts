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

type Schedule = {
  /** Microseconds from the start to the next arrival, `null` after the last one. */
  next(): number | null;
};

const replay = (momentsUs: readonly number[]): Schedule => {
  let k = 0;
  return { next: () => momentsUs[k++] ?? null };
};

/** Yields the arrivals of a profile one by one, in constant memory. Those of a trace are its own. */
export const makeSchedule = (profile: Profile, arrivals: Arrivals, seed: number): Schedule => {
  if (profile.momentsUs !== undefined) return replay(profile.momentsUs);
  let at = 0;
  let k = 0;
  let point = arrivals === "uniform" ? 0 : exponential(seed, 0, GAP_SALT);
  let offeredBefore = 0;
  let secondsBefore = 0;
  return {
    next: () => {
      for (;;) {
        const piece = profile.pieces[at];
        if (piece === undefined) return null;
        const offered = ((piece.from + piece.to) / 2) * piece.durationS;
        if (point < offeredBefore + offered) {
          const seconds = secondsUntil(point - offeredBefore, piece.from, piece.to, piece.durationS);
          k += 1;
          point = arrivals === "uniform" ? k : point + exponential(seed, k, GAP_SALT);
          return Math.round((secondsBefore + seconds) * 1e6);
        }
        offeredBefore += offered;
        secondsBefore += piece.durationS;
        at += 1;
      }
    },
  };
};

export const countArrivals = (profile: Profile, arrivals: Arrivals, seed: number): number => {
  const schedule = makeSchedule(profile, arrivals, seed);
  let count = 0;
  while (schedule.next() !== null) count += 1;
  return count;
};

/** The whole schedule: microseconds after the start, ascending. */
export const arrivalTimesUs = (profile: Profile, arrivals: Arrivals, seed: number): number[] => {
  const schedule = makeSchedule(profile, arrivals, seed);
  const times: number[] = [];
  for (let at = schedule.next(); at !== null; at = schedule.next()) times.push(at);
  return times;
};
