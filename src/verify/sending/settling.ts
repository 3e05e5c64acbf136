/** Waits for a change to arrive: key records may be as old as the revocation budget (items 58, 142; A14). */

import { ANY_SUCCESS, type Checks, type Fit, type Fits, fits, isSessionsOff, outcomesOf } from "../checks.ts";
import type { Context } from "../context.ts";
import type { Row } from "../rule.ts";
import { type Answer, isAdmitted } from "./answer.ts";
import type { TestCall } from "./test-call.ts";
import { wait } from "./throttle.ts";

/** Waiting time if the revocation budget is not stated. */
const ARRIVES_WITHIN_MS = 30_000;
const MARGIN_MS = 5_000;
const LOOK_EVERY_MS = 400;

export const deadlineMs = (context: Context): number => {
  const stated = context.target.limits?.revocation_budget_ms;
  return performance.now() + (stated === undefined ? ARRIVES_WITHIN_MS : stated + MARGIN_MS);
};

/**
 * Whether an edge may have put its page in place of the very refusal that is waited for: then more tries show nothing. Where
 * a success is waited for, the page may end once the change has arrived at the edge too.
 */
const mayHide = ({ foreign, status }: Answer, accepts: Fits): boolean => {
  const outcomes = outcomesOf(accepts);
  return foreign && !outcomes.includes(ANY_SUCCESS) && outcomes.some((outcome) => outcome.startsWith(`${status} `));
};

/** Sends until the answer fits or time is up. Returns the last answer. */
export const until = async (context: Context, call: TestCall, accepts: Fits, endMs = deadlineMs(context)) => {
  const hiddenEndMs = performance.now() + context.settleMs;
  for (;;) {
    const answer = await context.send(call);
    const untilMs = mayHide(answer, accepts) ? Math.min(endMs, hiddenEndMs) : endMs;
    if (fits(answer, accepts) || isSessionsOff(answer) || performance.now() > untilMs) return answer;
    await wait(LOOK_EVERY_MS, context.signal);
  }
};

/** Refusals that show that the deployment knows the key, so that waiting for a new key ends. */
const OF_A_KNOWN_KEY: readonly Fit[] = [
  ...(["insufficient_scope", "tier_capability_not_allowed", "product_not_allowed", "session_origin_mismatch"] as const),
  ...(["publishable_key_required", "publishable_requires_session", "ip_not_allowed"] as const),
];

export const firstUse = (context: Context, call: TestCall): Promise<Answer> =>
  until(context, call, [ANY_SUCCESS, ...OF_A_KNOWN_KEY]);

/** Concurrent calls, to reach several replicas, each with its own records. */
const AT_ONCE = 4;

export const untilEverywhere = async (context: Context, call: TestCall, accepts: Fits, endMs = deadlineMs(context)) => {
  for (;;) {
    const answer = await until(context, call, accepts, endMs);
    if (!fits(answer, accepts)) return answer;
    const others = await Promise.all(Array.from({ length: AT_ONCE }, () => context.send({ ...call, atOnce: true })));
    const odd = others.find((other) => !other.transient && !fits(other, accepts));
    if (odd === undefined) return answer;
    if (performance.now() > endMs) return odd;
    await wait(LOOK_EVERY_MS, context.signal);
  }
};

/** The default of item 142, if the revocation budget is not stated. */
const ARRIVED_AFTER_MS = 1_000;

/** Verifies that a refused change had no effect: sends the call once an accepted change would be visible. */
export const afterArrival = async (context: Context, call: TestCall, accepts: Fits): Promise<Answer> => {
  const budgetMs = context.target.limits?.revocation_budget_ms ?? ARRIVED_AFTER_MS;
  await wait(Math.min(budgetMs, MARGIN_MS), context.signal);
  return until(context, call, accepts, performance.now() + MARGIN_MS);
};

/** Judges a call with a revoked or expired key. If admitted, repeats it until the end has had time to arrive. */
export const expectOver = async (context: Context, checks: Checks, [call, over, or = []]: Row, endMs: number) => {
  const first = await context.send(call);
  // Everywhere, because a single refusal may be an edge's or that of one replica.
  const last = isAdmitted(first) ? await untilEverywhere(context, call, [over, or].flat(), endMs) : first;
  if (isAdmitted(first) && !isAdmitted(last)) checks.note("was admitted at first: its end had to arrive");
  checks.expect(last, over, [], or);
};

export const isSilent = ({ received }: Answer): boolean => /timeout/.test(received.error ?? "");

/** Sends a call that a proxy may cut off. A cut is final; other transient answers are retried as usual. */
export const answerTo = async (context: Context, call: TestCall): Promise<Answer> => {
  const answer = await context.send(call);
  const { once, ...patient } = call;
  if (once !== true || !answer.transient || (answer.status === null && !isSilent(answer))) return answer;
  return context.send(patient);
};
