/** What is kept of a call that is over: its outcome in the counts, and a line in the log where calls are logged. */
import type { ApiContext } from "./context.ts";

/** `givenId`: by the client, `null` where it gave none: an id of ours names no run. `org` is `"-"` where it is not known. */
export const countOutcome = (context: ApiContext, givenId: string | null, outcome: string, org: string): void => {
  const counted = context.parts.count(outcome, org);
  if (counted !== null) context.counts.count(givenId, counted.outcome, counted.org);
};

/** When a call began, for its line in the log; a clock is read for each call only where calls are logged. */
export const beginningMs = ({ logsCalls }: ApiContext): number => (logsCalls ? performance.now() : 0);

/** `beganMs`: by `beginningMs`. The credential is looked at only where calls are logged. */
export const recordCall = (
  context: ApiContext,
  givenId: string | null,
  requestId: string,
  route: string,
  org: string,
  outcome: string,
  beganMs: number,
  caller: { readonly credential: string | null },
): void => {
  countOutcome(context, givenId, outcome, org);
  if (!context.logsCalls) return;
  const durationMs = performance.now() - beganMs;
  const { credential } = caller;
  context.log.debug(context.parts.requestLog({ requestId, route, org, outcome, durationMs, credential }), "call");
};
