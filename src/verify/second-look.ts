/**
 * A disturbance of seconds leaves a few rules open, and they are tried once more when it is over: it should not cost the verdict
 * of a night. What failed is never tried again, and an allowance is not used up twice.
 */
import type { Claim } from "../history/run-document.ts";
import { type Context, callersOf } from "./context.ts";
import type { Rule } from "./rule.ts";
import { wait } from "./sending/throttle.ts";

/** Where more is open, it was no disturbance. */
const OPEN_MAX = 12;
const SERVED_WITHIN_S = 20;

/** Whether a call that should be admitted is, within a time that nobody minds. */
const isServedSoon = async (context: Context): Promise<boolean> => {
  const [caller] = callersOf(context, "design");
  if (caller === undefined) return true;
  for (let k = 0; k < SERVED_WITHIN_S && context.signal?.aborted !== true; k++) {
    const answer = await context.send({ route: "design.styles", ...caller, once: true }).catch(() => null);
    if (answer !== null && !answer.transient) return true;
    await wait(1_000, context.signal).catch(() => {});
  }
  return false;
};

/** What is worth a second look, with everything forgotten that was found out during the disturbance; none, where there is nothing to gain. */
export const leftOpen = async <T extends { rule: Rule; claim: Claim; spent: boolean }>(
  judged: readonly T[],
  context: Context,
): Promise<T[]> => {
  const open = judged.filter(
    // A budget that is spent does not come back.
    ({ rule, claim, spent }) => claim.verdict === "inconclusive" && rule.phase !== "quota-burn" && !spent,
  );
  if (context.short("requests", 1) !== null) return [];
  if (open.length === 0 || open.length > OPEN_MAX || !(await isServedSoon(context))) return [];
  context.forget();
  return open;
};
