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

/** `seed` and `i` give the jitter. Ends at the first step that was not answered with success: a later one builds on it. */
export function* triesOf(steps: readonly Step[], seed: number, i: number): Generator<Try, void, CameOfTry> {
  for (const [at, step] of steps.entries()) {
    let waitMs: number | null = null;
    for (let attempt = 0; ; attempt++) {
      const came = yield { step, at, attempt, waitMs };
      waitMs = nextAttemptMs(step, seed, i, { ...came, attempt });
      if (waitMs !== null) continue;
      if (!came.outcome.startsWith("2")) return;
      break;
    }
  }
}
