/** What a client does about a refusal that says "try again" (items 217, 219): whether, and after how long. */
import { GAP_REFUSALS, REFUSALS, type Refusal } from "../contract/refusals.ts";
import { statedWaitMs } from "../contract/retry-after.ts";
import { uniform } from "./random.ts";
import type { Step } from "./step.ts";

const JITTER_SALT = 0x4a495454;
/** Nobody waits for longer than this within a run; a refusal that says so is taken for a no. */
const WAIT_MAX_MS = 30_000;

const RETRYABLE = new Set(
  ([...Object.values(REFUSALS), ...Object.values(GAP_REFUSALS)] as Refusal[])
    .filter(({ retryable }) => retryable)
    .map(({ status, subcode }) => (subcode === null ? `${status}` : `${status} ${subcode}`)),
);

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
  if (retry === undefined || refused.attempt >= retry.times || !RETRYABLE.has(refused.outcome)) return null;
  if (!retry.honours) return 0;
  const asked = retryAfterMs(refused.retryAfter, refused.nowMs);
  if (asked > WAIT_MAX_MS) return null;
  // Spread over half a second at least: `0` and a date that has passed would bring all clients back in one moment.
  return asked + 0.5 * Math.max(asked, DEFAULT_WAIT_MS) * uniform(seed, i, JITTER_SALT + refused.attempt);
};
