/** Performs the tries of one call of a story, waiting in between as its client does. */

import type { ApiClient } from "../../client/api-client.ts";
import type { CallLine } from "../../history/line.ts";
import { callId } from "../../workload/request.ts";
import type { Step } from "../../workload/step.ts";
import { triesOf } from "../../workload/tries.ts";

type Performance = {
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
  const { stage, driver, idPrefix, seed } = how;
  const tries = triesOf(steps, seed, i);
  let dueUs = intendedUs;
  for (let next = tries.next(); !next.done; ) {
    const { step, at, attempt, waitMs } = next.value;
    if (waitMs !== null) {
      if (!(await how.wait(waitMs))) return;
      // When its wait was over, not when our timer came.
      dueUs += Math.round(waitMs * 1000);
    }
    const { line } = await client.send(step, {
      id: callId(idPrefix, i, at, attempt),
      stage,
      driver,
      intendedUs: dueUs,
      attempt,
      ...(at === 0 ? {} : { unscheduled: "step" as const }),
    });
    how.onLine(line);
    dueUs = line.done_us;
    next = tries.next({ outcome: line.outcome, retryAfter: line.retry_after, nowMs: Date.now() });
  }
};
