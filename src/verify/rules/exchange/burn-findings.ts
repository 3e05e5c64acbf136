/**
 * What using an allowance up on purpose shows, whatever the tier (items 10, 204-207; A8, A9, A19): mints above a cap, mints that
 * count nothing, sessions given out again, a month that begins meanwhile. What was used before is read from the target where
 * it shows, never assumed.
 */
import { shapeOf } from "../../../contract/foreign-text.ts";
import type { KeyRole, Target } from "../../../target/target.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { type Burn, EXCEEDED, HARD_STOP, isStop, loadUnder, UNKNOWN_MOST } from "../../limits/allowance-burn.ts";
import { admittedByWindow } from "../../limits/month-windows.ts";
import type { RuleResult } from "../../rule-result.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { exchangeCall } from "../../sending/test-call.ts";
import { usedIn } from "./quota-and-hard-stop.ts";

/** Paid organizations stop at so many times their allowance (section 8). */
export const HARD_STOP_TIMES = 5;

/** Where the hard stop of the expendable paid organization is, where the target file says so. */
export const paidCap = ({ credentials }: Target): number =>
  HARD_STOP_TIMES * (credentials?.publishable_expendable_paid?.limit ?? UNKNOWN_MOST);

/**
 * Whether the Free organization got exactly what the target file says is left, in this run: then its figures hold, and nobody
 * else loads; `null` where it was not looked at.
 */
export const figuresHold = (context: Context, found: boolean | null): Promise<boolean | null> =>
  context.once("figures of the allowance hold", async () => found);

/** More than `cap` admitted in one month, or nothing to say. */
export const overCap = (checks: Checks, { mints, admitted }: Burn, cap: number, expected: string): void => {
  const most = Math.max(0, ...admittedByWindow(mints).values());
  if (most <= cap) return;
  checks.breach({
    expected,
    got: `${most} map loads were admitted within one month`,
    steps: admitted.slice(-1),
    accepts: null,
  });
};

/** What overload refused was not charged and was asked for again; what had no answer may have been. */
export const tellOthers = (checks: Checks, { other }: Burn): void => {
  for (const answer of other) {
    if (answer.status === 429 || answer.status === 503) checks.note(inWords(answer));
    else checks.unclear(inWords(answer));
  }
};

/** What is not seen then: a gap between check and charge, through which two mints fit. */
export const noteEdge = (checks: Checks, { edgeMetAtOnce, stop, admitted, reused }: Burn): void => {
  if (checks.failed || stop === null || edgeMetAtOnce || admitted.length === 0 || reused > 0) return;
  checks.note("the last unit was asked for by one mint at a time: what several at once would get there is not known");
};

export const spentNote = (of: KeyRole, stop: Answer): string => {
  const used = usedIn(stop);
  const figures = used === undefined ? "" : ` (${used} of ${shapeOf(stop.fields.limit)})`;
  return `the allowance of ${of} is spent for this month${figures}; it was judged in the run that spent it`;
};

/** A9, the other reading: only what is loaded under a session counts, so that minting uses nothing up. */
const NOT_COUNTED = "nothing was refused: a mint is no map load here (A9), so minting cannot use the allowance up";

/** A19, the other reading: `expires_in` is what remains of a session that was there already. */
export const REUSED = "the exchange gives out the same session again (A19), so minting cannot use the allowance up";

/** Nothing refused a mint. Either loads under a session count in its place (A9), or nothing does. */
export const notCounted = async (
  context: Context,
  of: KeyRole,
  { admitted, reused }: Burn,
  most: number,
  checks: Checks,
): Promise<RuleResult> => {
  if (reused > 0) return new Checks(REUSED).result(REUSED);
  const none = new Checks(NOT_COUNTED);
  if (context.budget.left("map_loads") < most) return none.result(NOT_COUNTED);
  const loads = await loadUnder(context, of, admitted.at(-1)?.fields.session_token, most);
  const last = await context.send(exchangeCall(of, "listed", "tile"));
  if (isStop(last) || loads.some(isStop)) return none.result(NOT_COUNTED);
  if (!isAdmitted(last) || loads.filter(isAdmitted).length < most) {
    return none.result(`${NOT_COUNTED}; without a tile_url that serves, nobody knows what is one`);
  }
  checks.breach({
    expected: "an end to the allowance",
    got: `${admitted.length} mints and ${loads.filter(isAdmitted).length} loads under a session were admitted`,
    steps: [last],
    accepts: null,
  });
  return checks.result();
};

export const isGivenAgain = ({ admitted }: Burn, { fields }: Answer): boolean =>
  fields.session_token !== undefined && admitted.some((one) => one.fields.session_token === fields.session_token);

/** What is refused in one month is served in the next: then only each month's own number of loads says anything. */
export const ofTwoMonths = (checks: Checks, stop: Answer): RuleResult => {
  checks.expect(stop, { accepts: [EXCEEDED, HARD_STOP] });
  checks.note("a month may have begun meanwhile: each was judged for itself");
  return checks.result();
};
