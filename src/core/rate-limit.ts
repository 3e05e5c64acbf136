/** A key's rate by GCRA (ITU-T I.371, item 230): a window of w seconds admits at most burst + rate x w calls. */

export type Rate = {
  /** Calls a second in the long run. */
  perS: number;
  /** Calls that may come at once after a pause, at least 1. */
  burst: number;
};

export type RateTake = {
  allowed: boolean;
  /** The new state (theoretical arrival time), in milliseconds; unchanged by a refusal. */
  tatMs: number;
  /** After a refusal: milliseconds until a call is allowed. */
  waitMs: number;
};

/** Tolerance for rounding, without which the last call of a burst may be refused. */
const ROUNDING_MS = 0.001;

/** Takes one call. `tatMs`: the stored state, `undefined` for a new bucket. A refusal does not change the state. */
export const takeRate = (tatMs: number | undefined, nowMs: number, rate: Rate): RateTake => {
  const intervalMs = 1000 / rate.perS;
  const toleranceMs = intervalMs * (rate.burst - 1);
  const tat = tatMs === undefined || tatMs < nowMs ? nowMs : tatMs;
  const waitMs = tat - toleranceMs - nowMs;
  if (waitMs > ROUNDING_MS) return { allowed: false, tatMs: tatMs ?? nowMs, waitMs };
  return { allowed: true, tatMs: tat + intervalMs, waitMs: 0 };
};
