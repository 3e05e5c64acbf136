/**
 * The request rate of a key, by the generic cell rate algorithm (GCRA; ITU-T I.371, item 230). One number is the whole
 * state: the theoretical arrival time of the next call that would conform. In any window of w seconds it admits at most
 * burst + rate x w calls, and there is no window's edge to double at.
 */

export type Rate = {
  /** Calls a second in the long run. */
  perS: number;
  /** Calls that may come at once after a pause, at least 1. */
  burst: number;
};

export type RateTake = {
  allowed: boolean;
  /** The new state, in milliseconds; unchanged when refused. */
  tatMs: number;
  /** When refused: how long until a call would conform, in milliseconds. */
  waitMs: number;
};

/** Sums of fractions are a hair off; without this the last call of a burst at one moment would be refused. */
const ROUNDING_MS = 0.001;

/** `tatMs` is the stored state, `undefined` for a bucket never used. Refusing costs nothing. */
export const takeRate = (tatMs: number | undefined, nowMs: number, rate: Rate): RateTake => {
  const intervalMs = 1000 / rate.perS;
  const toleranceMs = intervalMs * (rate.burst - 1);
  const tat = tatMs === undefined || tatMs < nowMs ? nowMs : tatMs;
  const waitMs = tat - toleranceMs - nowMs;
  if (waitMs > ROUNDING_MS) return { allowed: false, tatMs: tatMs ?? nowMs, waitMs };
  return { allowed: true, tatMs: tat + intervalMs, waitMs: 0 };
};
