/**
 * Performs the steps of one call of a story, one after the other, and what its client does about a refusal that says "try
 * again": each attempt is a call of its own with an id of its own.
 */

import type { ApiClient } from "../../client/api-client.ts";
import type { CallLine } from "../../history/line.ts";
import { callId } from "../../workload/request.ts";
import { nextAttemptMs } from "../../workload/retry.ts";
import type { Step } from "../../workload/step.ts";

export type Performance = {
  stage: string;
  driver: string;
  idPrefix: string;
  seed: number;
  onLine(line: CallLine): void;
  /** Resolves after so long, or at once when the run stops; false then. */
  wait(ms: number): Promise<boolean>;
};

export const perform = async (
  client: ApiClient,
  steps: readonly Step[],
  i: number,
  intendedUs: number,
  how: Performance,
): Promise<void> => {
  const { stage, driver, seed } = how;
  let dueUs = intendedUs;
  for (const [at, step] of steps.entries()) {
    for (let attempt = 0; ; attempt++) {
      const id = callId(how.idPrefix, i, at, attempt);
      const { line } = await client.send(step, {
        ...{ id, stage, driver, intendedUs: dueUs, attempt },
        ...(at === 0 ? {} : { unscheduled: "step" as const }),
      });
      how.onLine(line);
      dueUs = line.done_us;
      const { outcome, retry_after: retryAfter } = line;
      const waitMs = nextAttemptMs(step, seed, i, { outcome, retryAfter, attempt, nowMs: Date.now() });
      if (waitMs !== null && (await how.wait(waitMs))) {
        // When its wait was over, not when our timer came.
        dueUs += Math.round(waitMs * 1000);
        continue;
      }
      // A later step builds on this one.
      if (!outcome.startsWith("2")) return;
      break;
    }
  }
};
