/**
 * `stop_when` in a stage with a fault: refusals that the fault causes are no errors from its injection to the recovery deadline.
 * The driver's process does not know these times, so it tolerates them always, and they are counted here.
 */

import { isError } from "../contract/refusals.ts";
import type { CallLine, FaultLine } from "../history/line.ts";
import { type BudgetGuard, createErrorWatch, NOTHING_SPENT } from "../workload/budget.ts";
import { outcomesOf } from "./fault.ts";

export const watchBesideFault = (
  budget: BudgetGuard,
  recoveryMs: number,
  tolerated: readonly string[] = outcomesOf([]),
) => {
  const watch = createErrorWatch(budget.stated.stopErrorRate);
  const tooMany = new AbortController();
  let fromUs = Number.POSITIVE_INFINITY;
  let untilUs = Number.POSITIVE_INFINITY;
  return {
    /** For the driver; shares the run's budget. */
    budget: {
      ...budget,
      left: () => ({ ...budget.left(), tolerated }),
      get stopped() {
        return budget.stopped;
      },
    } satisfies BudgetGuard,
    call: (line: Pick<CallLine, "sent_us" | "done_us" | "outcome" | "ended" | "events" | "aborted">): void => {
      const { sent_us: sentUs, done_us: doneUs, outcome } = line;
      const isDuring = doneUs >= fromUs && sentUs <= untilUs;
      const stopped = watch(doneUs, isError(outcome, line, isDuring ? tolerated : []));
      if (stopped === null || tooMany.signal.aborted) return;
      budget.absorb(NOTHING_SPENT, stopped);
      tooMany.abort();
    },
    fault: ({ phase, at_us: atUs }: Pick<FaultLine, "phase" | "at_us">): void => {
      if (phase === "injecting") fromUs = Math.min(fromUs, atUs);
      if (phase === "healed") untilUs = atUs + recoveryMs * 1000;
    },
    /** Fires when there were too many errors; `budget.stopped` is set then. */
    signal: tooMany.signal,
  };
};
