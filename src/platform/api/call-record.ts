/** What is kept of a call that is over: its outcome in the counts, and a line in the log where calls are logged. */
import type { ApiContext } from "./context.ts";

/** `org` is `"-"` where it is not known. */
export const countOutcome = (context: ApiContext, requestId: string, outcome: string, org: string): void => {
  const counted = context.parts.count(outcome, org);
  if (counted !== null) context.counts.count(requestId, counted.outcome, counted.org);
};

/** `beganMs`: by `performance.now()`. */
export const recordCall = (
  context: ApiContext,
  requestId: string,
  route: string,
  org: string,
  outcome: string,
  beganMs: number,
  credential: string | null,
): void => {
  countOutcome(context, requestId, outcome, org);
  if (!context.log.isLevelEnabled("debug")) return;
  const durationMs = performance.now() - beganMs;
  context.log.debug(context.parts.requestLog({ requestId, route, org, outcome, durationMs, credential }), "call");
};
