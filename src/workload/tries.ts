/**
 * The steps of one call of a story, one after the other, and what its client does about a refusal that says "try again":
 * each attempt is a call of its own with an id of its own. Whoever sends asks for the next attempt and answers with what
 * came of it; our own driver waits in promises, a k6 script in place, and both walk the same way.
 */
import { nextAttemptMs, type Refused } from "./retry.ts";
import type { Step } from "./step.ts";

type Try = {
  readonly step: Step;
  /** Number of the step within its call, and of the attempt within its step. */
  readonly at: number;
  readonly attempt: number;
  /** How long to wait before it is sent; `null` for one that repeats nothing. */
  readonly waitMs: number | null;
};

type CameOfTry = Pick<Refused, "outcome" | "retryAfter" | "nowMs">;

export type Tries = {
  /** The next try; `came`: what came of the one before, absent for the first. */
  next(came?: CameOfTry): { readonly done: false; readonly value: Try } | { readonly done: true };
};

const OVER = { done: true } as const;

/**
 * `seed` and `i` give the jitter. Ends at the first step that was not answered with success: a later one builds on it. No
 * generator, because those cost a k6 script more than the call does.
 */
export const triesOf = (steps: readonly Step[], seed: number, i: number): Tries => {
  let at = 0;
  let attempt = 0;
  const tryOf = (waitMs: number | null): ReturnType<Tries["next"]> => {
    const step = steps[at];
    return step === undefined ? OVER : { done: false, value: { step, at, attempt, waitMs } };
  };
  return {
    next: (came) => {
      const step = steps[at];
      if (came === undefined || step === undefined) return tryOf(null);
      const waitMs = nextAttemptMs(step, seed, i, { ...came, attempt });
      if (waitMs !== null) {
        attempt += 1;
        return tryOf(waitMs);
      }
      at = came.outcome.startsWith("2") ? at + 1 : steps.length;
      attempt = 0;
      return tryOf(null);
    },
  };
};
