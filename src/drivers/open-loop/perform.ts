/** Performs the tries of one call of a story, waiting in between as its client does. */
import type { ApiClient, Sent } from "../../client/api-client.ts";
import type { CallContext } from "../../client/call-line.ts";
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

/** `over` is called once, when nothing more comes of the call, with the error where it could not be made. */
export const perform = (
  client: ApiClient,
  steps: readonly Step[],
  i: number,
  intendedUs: number,
  how: Performance,
  over: (error: unknown) => void,
): void => {
  const { stage, driver, idPrefix, seed } = how;
  const tries = triesOf(steps, seed, i);
  let dueUs = intendedUs;
  const go = (next: ReturnType<typeof tries.next>): void => {
    if (next.done === true) {
      over(null);
      return;
    }
    const { step, at, attempt, waitMs } = next.value;
    const context: CallContext = {
      id: callId(idPrefix, i, at, attempt),
      stage,
      driver,
      intendedUs: dueUs,
      attempt,
    };
    if (at > 0) context.unscheduled = "step";
    if (waitMs === null) {
      client.begin(step, context, sent, over);
      return;
    }
    // When its wait was over, not when our timer came.
    context.intendedUs += Math.round(waitMs * 1000);
    how
      .wait(waitMs)
      .then((isOver) => (isOver ? client.begin(step, context, sent, over) : over(null)))
      .catch(over);
  };
  const sent = ({ line }: Sent): void => {
    how.onLine(line);
    dueUs = line.done_us;
    go(tries.next({ outcome: line.outcome, retryAfter: line.retry_after, nowMs: Date.now() }));
  };
  go(tries.next());
};
