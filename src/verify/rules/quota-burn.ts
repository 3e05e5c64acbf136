/**
 * The allowance, used up on purpose (items 10, 79, 204-207, 225, 227, 234; A8, A8b, A9): mints at the edge, at once, because a
 * gap between check and charge shows only then. What was used before is read from the target where it shows, never assumed.
 */
import type { KeyRole } from "../../drivers/target.ts";
import { type Burn, burn, EXCEEDED, HARD_STOP, isStop, loadsOf, loadUnder } from "../allowance-burn.ts";
import { type Answer, isAdmitted, told } from "../answer.ts";
import { ANY_SUCCESS, Checks } from "../checks.ts";
import type { Context } from "../context.ts";
import { admittedByWindow, inOneWindow } from "../month-windows.ts";
import { exchangeProbe, role } from "../probe.ts";
import type { Rule, RuleResult } from "../rule.ts";
import { usedIn } from "./meters.ts";

/** Paid organizations stop at so many times their allowance (section 8). */
const HARD_STOP_TIMES = 5;
/** Stopped at exactly so many times: rather another rule than loads of which nobody knows, where nobody else loads. */
const STOPS_OF_ANOTHER_RULE: ReadonlySet<number> = new Set([1, 2, 3, 4]);
/**
 * Whether the Free organization got exactly what the target file says is left, in this run: then its figures hold, and nobody
 * else loads; `null` where it was not looked at.
 */
const figuresHold = (context: Context, found: boolean | null): Promise<boolean | null> =>
  context.once("figures of the allowance hold", async () => found);
/** Mints past the edge that a conforming target refuses. */
const PAST = 3;
/** Where the target file does not say how large the allowance is. */
const UNKNOWN_MOST = 40;

/** More than `cap` admitted in one month, or nothing to say. */
const overCap = (checks: Checks, { mints, admitted }: Burn, cap: number, expected: string): void => {
  const most = Math.max(0, ...admittedByWindow(mints).values());
  if (most <= cap) return;
  checks.breach({
    expected,
    got: `${most} map loads were let in within one month`,
    steps: admitted.slice(-1),
    accepts: null,
  });
};

/** What overload refused was not charged and was asked for again; what had no answer may have been. */
const tellOthers = (checks: Checks, { other }: Burn): void => {
  for (const answer of other) {
    if (answer.status === 429 || answer.status === 503) checks.note(told(answer));
    else checks.unclear(told(answer));
  }
};

const spentNote = (of: KeyRole, stop: Answer): string => {
  const used = usedIn(stop);
  const figures = used === undefined ? "" : ` (${used} of ${stop.fields.limit})`;
  return `the allowance of ${of} is spent for this month${figures}; it was judged in the run that spent it`;
};

/** A9, the other reading: only what is loaded under a session counts, so that minting uses nothing up. */
const NOT_COUNTED = "nothing was refused: a mint is no map load here (A9), so minting cannot use the allowance up";

/** A19, the other reading: `expires_in` is what remains of a session that was there already. */
const REUSED = "the exchange gives out the same session again (A19), so minting cannot use the allowance up";

/** Whether minting was seen to use an allowance up, the Free organization's; where it was not yet looked at, it is now. */
const mintsCount = async (context: Context): Promise<boolean> => {
  const of = "publishable_expendable";
  if (!context.has(of)) return false;
  const about = (answer: Answer): boolean => "of" in answer.probe.credential && answer.probe.credential.of === role(of);
  // What stopped there after loads under a session shows nothing about minting.
  if (context.answers.some((answer) => about(answer) && answer.probe.route.startsWith("maps."))) return false;
  const seen = context.answers.some((answer) => about(answer) && answer.outcome === EXCEEDED);
  if (seen) return true;
  const most = (context.keyRole(of)?.limit ?? UNKNOWN_MOST) + PAST;
  return context.budget.left("map_loads") >= most && (await burn(context, of, most)).stop !== null;
};

/** Nothing refused a mint. Either loads under a session count in its place (A9), or nothing does. */
const notCounted = async (
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
  const last = await context.send(exchangeProbe(of, "listed", "tile"));
  if (isStop(last) || loads.some(isStop)) return none.result(NOT_COUNTED);
  if (!isAdmitted(last) || loads.filter(isAdmitted).length < most) {
    return none.result(`${NOT_COUNTED}; without a tile_url that serves, nobody knows what is one`);
  }
  checks.breach({
    expected: "an end to the allowance",
    got: `${admitted.length} mints and ${loads.filter(isAdmitted).length} loads under a session were let in`,
    steps: [last],
    accepts: null,
  });
  return checks.result();
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
  const after = usedIn(await context.send(exchangeProbe(of, "listed", "tile")));
  return after === undefined || after > used;
};

const isGivenAgain = ({ admitted }: Burn, { fields }: Answer): boolean =>
  fields.session_token !== undefined && admitted.some((one) => one.fields.session_token === fields.session_token);

/** What is refused in one month is served in the next: then only each month's own number of loads tells anything. */
const ofTwoMonths = (checks: Checks, stop: Answer): RuleResult => {
  checks.expect(stop, { accepts: [EXCEEDED, HARD_STOP] });
  checks.note("a month may have begun meanwhile: each was judged for itself");
  return checks.result();
};

const free: Rule = {
  id: "allowance-is-exact",
  level: "must",
  spec: [10, 79, 87, 184, 204, 227, 234],
  title: "a Free organization is served exactly its allowance of map loads, also when all come at once",
  phase: "quota-burn",
  needs: { permission: "quota-burn", roles: ["publishable_expendable"] },
  run: async (context) => {
    const of = "publishable_expendable";
    const checks = new Checks("map loads up to the allowance and none more, then map_load_quota_exceeded");
    const stated = context.keyRole(of)?.limit;
    const most = (stated ?? UNKNOWN_MOST) + PAST;
    if (context.budget.left("map_loads") < (stated ?? UNKNOWN_MOST)) {
      return checks.result(`budget.map_loads of the target file does not allow the ${stated ?? UNKNOWN_MOST} of ${of}`);
    }
    const found = await burn(context, of, most);
    const { stop, admitted, mints } = found;
    tellOthers(checks, found);
    if (stop === null) return notCounted(context, of, found, most, checks);
    if (stated !== undefined) overCap(checks, found, stated, `at most ${stated} map loads in a month`);
    if (found.reused > 0 && !checks.failed) return new Checks(REUSED).result(REUSED);
    // A mint that came first in the burst and was refused last may be the one in `stop`: look again, alone.
    const last = await context.send(exchangeProbe(of, "listed", "tile"));
    if (isGivenAgain(found, last) && !checks.failed) return new Checks(REUSED).result(REUSED);
    if (!inOneWindow(mints, context.wallMs())) return ofTwoMonths(checks, stop);
    const used = usedIn(last);
    await figuresHold(context, stated === undefined ? null : admitted.length === stated);
    if (!checks.expect(last, { accepts: [EXCEEDED] }) || used === undefined) return checks.result();
    const limit = Number(last.fields.limit);
    overCap(checks, found, limit, `at most ${limit} map loads in a month`);
    // Above the limit, when it was a paid organization before, or somebody else's loads came first: then nothing is let in.
    const fits = admitted.length === 0 ? used >= limit : used === limit;
    checks.require(fits, last, `used at the limit, ${limit}`, `used was ${used}`);
    checks.require(
      used >= admitted.length,
      last,
      `every one of the ${admitted.length} admitted mints counted`,
      `used was ${used}`,
    );
    checks.note(`${admitted.length} of ${limit} were left and let in`);
    if (admitted.length === 0 && !checks.failed) return new Checks(free.title).result(spentNote(of, last));
    return checks.result();
  },
};

/** Map loads of this run that were let in before a burn began; a session that was given out twice is one. */
const loadedBefore = (context: Context, of: KeyRole, { admitted }: Burn): number => {
  const mine = new Set(admitted.map(({ id }) => id));
  const before = loadsOf(context, of).filter(({ id }) => !mine.has(id));
  return new Set(before.map(({ id, fields }) => fields.session_token ?? id)).size;
};

const OTHERS_MAX = 60;

const otherProducts: Rule = {
  id: "other-products-are-not-charged",
  level: "must",
  spec: [80, 225],
  title: "sessions of other products use up no map loads",
  phase: "quota-burn",
  needs: { permission: "quota-burn", roles: ["publishable_expendable_paid"], spends: { map_loads: 2 } },
  run: async (context) => {
    const of = "publishable_expendable_paid";
    const checks = new Checks("tile is served after more chat sessions than the organization has map loads");
    const cap = (context.keyRole(of)?.limit ?? OTHERS_MAX) * HARD_STOP_TIMES;
    if (cap >= OTHERS_MAX) return checks.result(`the allowance of ${of} is too large to be passed`);
    const before = await context.send(exchangeProbe(of, "listed", "tile"));
    if (isStop(before)) return checks.result(spentNote(of, before));
    if (!checks.expect(before, { accepts: [ANY_SUCCESS] })) return checks.result();
    const chats = Array.from({ length: cap + 1 }, () => exchangeProbe(of, "listed", "chat"));
    await context.each(chats, async (probe) => {
      const answer = await context.send(probe);
      if (!isAdmitted(answer)) checks.expect(answer, { accepts: [ANY_SUCCESS] });
    });
    const after = await context.send(exchangeProbe(of, "listed", "tile"));
    checks.expect(after, { accepts: [ANY_SUCCESS] }, [before]);
    return checks.result();
  },
};

const paid: Rule = {
  id: "soft-band-and-hard-stop",
  level: "must",
  spec: [205, 206, 207, 225, 234],
  title: "a paid organization goes on past its allowance and stops at five times it with map_load_hard_stop",
  phase: "quota-burn",
  needs: { permission: "quota-burn", roles: ["publishable_expendable_paid"] },
  run: async (context) => {
    const of = "publishable_expendable_paid";
    const checks = new Checks("map loads up to five times the allowance (one more, by A8b), then map_load_hard_stop");
    const limit = context.keyRole(of)?.limit;
    if (limit === undefined) return checks.result(`credentials.${of}.limit: without it nobody knows where the stop is`);
    const cap = limit * HARD_STOP_TIMES;
    if (context.budget.left("map_loads") < cap) {
      return checks.result(`budget.map_loads of the target file does not allow the ${cap} of ${of}`);
    }
    const found = await burn(context, of, cap + PAST);
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
    const last = await context.send(exchangeProbe(of, "listed", "tile"));
    if (isGivenAgain(found, last) && !checks.failed) return new Checks(REUSED).result(REUSED);
    if (!inOneWindow(found.mints, context.wallMs())) return ofTwoMonths(checks, stop);
    const count = admitted.length;
    if (last.outcome === EXCEEDED) {
      // A8, the other reading: the exchange stops everybody at the allowance; then nobody gets as far as the hard stop.
      const used = usedIn(last) ?? 0;
      const band = count + loadedBefore(context, of, found) > limit || used >= cap;
      checks.require(!band, last, "map_load_hard_stop after the soft band", `it was ${told(last)}`);
      checks.require(used >= limit, last, `no refusal below the allowance of ${limit}`, `used was ${used}`);
      const forSessions = checks.failed || (await hasBandForSessions(context, of, found, used));
      checks.require(
        forSessions,
        last,
        "a soft band, at least for sessions that are there already (A8)",
        "nothing counts",
      );
      checks.note("stops at the allowance (A8)");
    } else if (checks.expect(last, { accepts: [HARD_STOP] })) {
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
    }
    checks.note(`${count} were let in`);
    if (count === 0 && !checks.failed) return new Checks(paid.title).result(spentNote(of, last));
    return checks.result();
  },
};

export const QUOTA_BURN_RULES: readonly Rule[] = [free, otherProducts, paid];
