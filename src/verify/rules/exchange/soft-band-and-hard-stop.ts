/** The soft band of a paid organization and its hard stop (items 205-207, 225, 234; A8, A8b). */
import type { KeyRole } from "../../../target/target.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import {
  type Burn,
  burn,
  EXCEEDED,
  HARD_STOP,
  isStop,
  loadsOf,
  loadUnder,
  PAST,
  UNKNOWN_MOST,
} from "../../limits/allowance-burn.ts";
import { inOneWindow } from "../../limits/month-windows.ts";
import { OutOfBudget } from "../../planning/shortage.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { exchangeCall, role } from "../../sending/test-call.ts";
import {
  figuresHold,
  HARD_STOP_TIMES,
  isGivenAgain,
  notCounted,
  noteEdge,
  ofTwoMonths,
  overCap,
  paidCap,
  REUSED,
  spentNote,
  tellOthers,
} from "./burn-findings.ts";
import { usedIn } from "./quota-and-hard-stop.ts";

/** Stopped at exactly so many times: rather another rule than loads of which nobody knows, where nobody else loads. */
const STOPS_OF_ANOTHER_RULE: ReadonlySet<number> = new Set([1, 2, 3, 4]);

/** Whether minting was seen to use an allowance up, the Free organization's; where it was not yet looked at, it is now. */
const mintsCount = async (context: Context): Promise<boolean> => {
  const of = "publishable_expendable";
  if (!context.has(of)) return false;
  const about = (answer: Answer): boolean =>
    "of" in answer.testCall.credential && answer.testCall.credential.of === role(of);
  // What stopped there after loads under a session shows nothing about minting.
  if (context.answers.some((answer) => about(answer) && answer.testCall.route.startsWith("maps."))) return false;
  const seen = context.answers.some((answer) => about(answer) && answer.outcome === EXCEEDED);
  if (seen) return true;
  const { limit } = context.keyRole(of) ?? {};
  const most = (limit ?? UNKNOWN_MOST) + PAST;
  return context.budget.left("map_loads") >= most && (await burn(context, of, limit)).stop !== null;
};

/**
 * A8, the other reading: the exchange stops paid organizations at their allowance, and the soft band is for sessions that are
 * there already. Then what they load is served, and counted: a band in which nothing counts is none. `true` where nobody can
 * look.
 */
const hasBandForSessions = async (context: Context, of: KeyRole, found: Burn, used: number): Promise<boolean> => {
  const loads = await loadUnder(context, of, found.admitted.at(-1)?.fields.session_token, PAST);
  if (loads.some(isStop)) return false;
  if (!loads.some(isAdmitted)) return true;
  const after = usedIn(await context.send(exchangeCall(of, "listed", "tile")));
  return after === undefined || after > used;
};

/** Map loads of this run that were admitted before a burn began; a session that was given out twice is one. */
const loadedBefore = (context: Context, of: KeyRole, { admitted }: Burn): number => {
  const mine = new Set(admitted.map(({ id }) => id));
  const before = loadsOf(context, of).filter(({ id }) => !mine.has(id));
  return new Set(before.map(({ id, fields }) => fields.session_token ?? id)).size;
};

type Counted = { of: KeyRole; found: Burn; limit: number; last: Answer };

/** A8, the other reading: the exchange stops everybody at the allowance; then nobody gets as far as the hard stop. */
const stoppedAsFree = async (context: Context, checks: Checks, { of, found, limit, last }: Counted): Promise<void> => {
  const used = usedIn(last) ?? 0;
  const band = found.admitted.length + loadedBefore(context, of, found) > limit || used >= limit * HARD_STOP_TIMES;
  checks.require(!band, last, "map_load_hard_stop after the soft band", `it was ${inWords(last)}`);
  checks.require(used >= limit, last, `no refusal below the allowance of ${limit}`, `used was ${used}`);
  const forSessions = checks.failed || (await hasBandForSessions(context, of, found, used));
  checks.require(forSessions, last, "a soft band, at least for sessions that are there already (A8)", "nothing counts");
  checks.note("stops at the allowance (A8)");
};

const stoppedHard = async (context: Context, checks: Checks, { of, found, limit, last }: Counted): Promise<void> => {
  const cap = limit * HARD_STOP_TIMES;
  const count = found.admitted.length;
  const before = loadedBefore(context, of, found);
  const times = (count + before) / limit;
  const isAnother = STOPS_OF_ANOTHER_RULE.has(times) || count + before === limit - 1;
  if (isAnother && (await figuresHold(context, null)) !== false) {
    checks.require(
      false,
      last,
      `map loads past the allowance of ${limit}, up to ${cap}`,
      `it stopped after ${count + before}, which is ${times === 1 ? "" : `${times} times `}the allowance`,
    );
  } else if (count > 0 && count + before < cap - 1) {
    checks.unclear(`it stopped after ${count + before} of ${cap}: some may have been used before`);
  }
};

export const paid: Rule = {
  id: "soft-band-and-hard-stop",
  level: "must",
  spec: [205, 206, 207, 225, 234],
  title: "a paid organization goes on past its allowance and stops at five times it with map_load_hard_stop",
  phase: "quota-burn",
  needs: { permission: "quota-burn", roles: ["publishable_expendable_paid"] },
  cost: (target) => ({ calls: paidCap(target) + 5, map_loads: paidCap(target) - 2 }),
  run: async (context) => {
    const of = "publishable_expendable_paid";
    const checks = new Checks("map loads up to five times the allowance (one more, by A8b), then map_load_hard_stop");
    const limit = context.keyRole(of)?.limit;
    if (limit === undefined) return checks.result(`credentials.${of}.limit: without it nobody knows where the stop is`);
    const cap = limit * HARD_STOP_TIMES;
    const short = context.short("map_loads", cap);
    if (short !== null) throw new OutOfBudget(short);
    const found = await burn(context, of, cap);
    const { stop, admitted } = found;
    tellOthers(checks, found);
    // That free organizations are counted shows that mints are map loads here; then no stop at all is a breach.
    if (stop === null && !(await mintsCount(context))) return notCounted(context, of, found, cap + PAST, checks);
    // What the rule before has loaded counts as well.
    overCap(
      checks,
      found,
      cap + 1 - loadedBefore(context, of, found),
      `at most ${cap} map loads in a month (${cap + 1} by A8b)`,
    );
    if (found.reused > 0 && !checks.failed) return new Checks(REUSED).result(REUSED);
    if (stop === null) return checks.result();
    const last = await context.send(exchangeCall(of, "listed", "tile"));
    if (isGivenAgain(found, last) && !checks.failed) return new Checks(REUSED).result(REUSED);
    if (!inOneWindow(found.mints, context.wallMs())) return ofTwoMonths(checks, stop);
    const counted: Counted = { of, found, limit, last };
    if (last.outcome === EXCEEDED) await stoppedAsFree(context, checks, counted);
    else if (checks.expect(last, { accepts: [HARD_STOP] })) await stoppedHard(context, checks, counted);
    const count = admitted.length;
    noteEdge(checks, found);
    checks.note(`${count} were admitted`);
    if (count === 0 && !checks.failed) return new Checks(paid.title).result(spentNote(of, last));
    return checks.result();
  },
};
