/** The budget of the process: set once by all VUs, asked by the extension before each call leaves. */
import { sleep } from "k6";
import exec from "k6/execution";
import sse from "k6/x/sse";
import type { Budget } from "../../src/workload/budget.ts";
import type { PrintedSpent } from "../../src/workload/handover.ts";
import { hasAdditions } from "./extension.ts";

/** Calls that are under way when the budget ends the test may go on for so long. */
export const DRAIN_MS = 1_000;

export const setBudget = (budget: Budget | undefined, stated?: Budget): void => {
  if (hasAdditions && budget !== undefined) sse.budget({ ...budget, stated });
};

/** Ends the test as soon as no call is under way that would be lost. To be called from every VU; one of them ends it. */
export const endInOrder = (reason: string): void => {
  if (hasAdditions) {
    // A call that waited for its moment or its turn when the test ended by itself was not sent either.
    if (sse.spent().stopped === null) return;
    if (!sse.drain(DRAIN_MS)) {
      // The next iteration could not do anything either, until the end of the test cuts this short.
      sleep((2 * DRAIN_MS) / 1000);
      return;
    }
  }
  exec.test.abort(reason);
};

/** The script has noted what came of its last call, so the test may end without losing it. */
export const settled = (): void => {
  if (hasAdditions) sse.settled();
};

/** `null` on a k6 that does not count it. */
export const spentSoFar = (): PrintedSpent | null => {
  if (!hasAdditions) return null;
  const {
    unsent,
    in_flight: cut,
    most_in_flight: most,
    http1,
    http2,
    stopped,
    stopped_by: by,
    requests,
    map_loads,
    analyses,
    stream_seconds,
  } = sse.spent();
  return {
    type: "spent",
    spent: { requests, map_loads, analyses, stream_seconds },
    unsent,
    cut,
    most,
    http1,
    http2,
    stopped: stopped === null ? null : { by: by ?? "failed", reason: stopped },
  };
};
