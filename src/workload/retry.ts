/** What a client does about a refusal that says "try again" (items 217, 219): whether, and after how long. */
import { GAP_REFUSALS, REFUSALS, type Refusal } from "../contract/refusals.ts";
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

/** Milliseconds that `Retry-After` asks for: seconds or a date (RFC 9110); one second where it says nothing usable. */
export const retryAfterMs = (value: string | undefined, nowMs: number): number => {
  if (value === undefined) return 1000;
  if (/^\d+$/.test(value.trim())) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? 1000 : Math.max(0, date - nowMs);
};

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
  return asked > WAIT_MAX_MS ? null : asked * (1 + 0.5 * uniform(seed, i, JITTER_SALT + refused.attempt));
};
