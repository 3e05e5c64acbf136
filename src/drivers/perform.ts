/**
 * Performs the steps of one call of a story, one after the other, and what its client does about a refusal that says "try
 * again": each attempt is a call of its own with an id of its own.
 */
import { GAP_REFUSALS, REFUSALS, type Refusal } from "../contract/subcodes.ts";
import { uniform } from "../workload/random.ts";
import type { Step } from "../workload/step.ts";
import type { Sent, Wire } from "./http.ts";
import type { ObservedLine } from "./observed-line.ts";
import type { RunClock } from "./run-clock.ts";

export type Performance = {
  stage: string;
  driver: string;
  idPrefix: string;
  seed: number;
  clock: RunClock;
  onLine(line: ObservedLine): void;
  /** Resolves after so long, or at once when the run stops; false then. */
  wait(ms: number): Promise<boolean>;
};

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

export const perform = async (
  wire: Wire,
  steps: readonly Step[],
  i: number,
  intendedUs: number,
  how: Performance,
): Promise<void> => {
  let dueUs = intendedUs;
  for (const [at, step] of steps.entries()) {
    const base = `${how.idPrefix}-${i}${at === 0 ? "" : `.${at}`}`;
    const attempts = 1 + (step.retry?.times ?? 0);
    let sent: Sent | null = null;
    for (let attempt = 0; attempt < attempts; attempt++) {
      const id = attempt === 0 ? base : `${base}r${attempt}`;
      sent = await wire.send(step, { id, stage: how.stage, driver: how.driver, intendedUs: dueUs });
      how.onLine(sent.line);
      if (!RETRYABLE.has(sent.line.outcome) || attempt + 1 === attempts) break;
      if (step.retry?.honours === true) {
        const asked = retryAfterMs(sent.line.retry_after, Date.now());
        if (asked > WAIT_MAX_MS) break;
        const jittered = asked * (1 + 0.5 * uniform(how.seed, i, JITTER_SALT + attempt));
        if (!(await how.wait(jittered))) break;
      }
      dueUs = how.clock.nowUs();
    }
    if (sent === null || !/^2/.test(sent.line.outcome)) return;
    dueUs = how.clock.nowUs();
  }
};
