/** What a client does about a refusal that says "try again" (items 217, 219): whether, and after how long. */
import { REFUSAL_BY_OUTCOME } from "../contract/refusals.ts";
import { statedWaitMs } from "../contract/retry-after.ts";
import { uniform } from "./random.ts";
import type { Step } from "./step.ts";

const JITTER_SALT = 0x4a495454;
/** Nobody waits for longer than this within a run; a refusal that says so is taken for a no. */
const WAIT_MAX_MS = 30_000;

/** A client that is told nothing usable waits for so long. */
const DEFAULT_WAIT_MS = 1000;

/** Milliseconds that `Retry-After` asks for; the default where it says nothing usable. */
export const retryAfterMs = (value: string | undefined, nowMs: number): number =>
  (value === undefined ? undefined : statedWaitMs(value, nowMs)) ?? DEFAULT_WAIT_MS;

export type Refused = {
  readonly outcome: string;
  readonly retryAfter: string | undefined;
  /** How often it was tried before this one. */
  readonly attempt: number;
  readonly nowMs: number;
};

/** How long to wait before the next attempt, `null` when there is none. `seed` and `i` give the jitter. */
export const nextAttemptMs = (step: Step, seed: number, i: number, refused: Refused): number | null => {
  const { retry } = step;
  if (
    retry === undefined ||
    refused.attempt >= retry.times ||
    REFUSAL_BY_OUTCOME.get(refused.outcome)?.retryable !== true
  )
    return null;
  if (!retry.honours) return 0;
  const asked = retryAfterMs(refused.retryAfter, refused.nowMs);
  if (asked > WAIT_MAX_MS) return null;
  // Spread over half a second at least: `0` and a date that has passed would bring all clients back in one moment.
  return asked + 0.5 * Math.max(asked, DEFAULT_WAIT_MS) * uniform(seed, i, JITTER_SALT + refused.attempt);
};

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
