/** How a client reacts to a refusal that says "try again" (items 217, 219). */
import { REFUSAL_BY_OUTCOME } from "../contract/refusals.ts";
import { statedWaitMs } from "../contract/retry-after.ts";
import { uniform } from "./random.ts";
import type { Step } from "./step.ts";

const JITTER_SALT = 0x4a495454;
/** A refusal that asks for a longer wait is final, because the run may end first. */
const WAIT_MAX_MS = 30_000;

const DEFAULT_WAIT_MS = 1000;

export const retryAfterMs = (value: string | undefined, nowMs: number): number =>
  (value === undefined ? undefined : statedWaitMs(value, nowMs)) ?? DEFAULT_WAIT_MS;

export type Refused = {
  readonly outcome: string;
  readonly retryAfter: string | undefined;
  /** The number of earlier attempts. */
  readonly attempt: number;
  readonly nowMs: number;
};

/** Milliseconds until the next attempt, `null` for none. `seed` and `i` give the jitter. */
export const nextAttemptMs = (step: Step, seed: number, i: number, refused: Refused): number | null => {
  const { times = 0, honours } = step.retry ?? {};
  if (refused.attempt >= times || REFUSAL_BY_OUTCOME.get(refused.outcome)?.retryable !== true) return null;
  if (honours !== true) return 0;
  const asked = retryAfterMs(refused.retryAfter, refused.nowMs);
  if (asked > WAIT_MAX_MS) return null;
  // At least half a second of jitter, or `0` and past dates would bring all clients back at once.
  return asked + 0.5 * Math.max(asked, DEFAULT_WAIT_MS) * uniform(seed, i, JITTER_SALT + refused.attempt);
};

type Try = {
  readonly step: Step;
  /** The number of the step in its call, and of the attempt in its step. */
  readonly at: number;
  readonly attempt: number;
  /** Milliseconds to wait before the attempt; `null` for a first one. */
  readonly waitMs: number | null;
};

/**
 * Returns a function that gives the next attempt of a call's steps; `null` after the last one, or once a step failed for
 * good, because later steps build on it. `came`: the result of the attempt before, absent for the first. Not a
 * generator, which costs a k6 script more than the call.
 */
export const triesOf = (steps: readonly Step[], seed: number, i: number) => {
  let at = 0;
  let attempt = 0;
  return (came?: Omit<Refused, "attempt">): Try | null => {
    let waitMs: number | null = null;
    const last = steps[at];
    if (came !== undefined && last !== undefined) {
      waitMs = nextAttemptMs(last, seed, i, { ...came, attempt });
      if (waitMs === null) at = came.outcome.startsWith("2") ? at + 1 : steps.length;
      attempt = waitMs === null ? 0 : attempt + 1;
    }
    const step = steps[at];
    return step === undefined ? null : { step, at, attempt, waitMs };
  };
};
