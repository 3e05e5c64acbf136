/** The allowance of map loads. Earlier use is read from the target's answers, never assumed. */
import { shapeOf } from "../../contract/foreign-text.ts";
import { HARD_STOP_FACTOR } from "../../contract/refusals.ts";
import type { KeyRole } from "../../target/roles.ts";
import type { Target } from "../../target/target.ts";
import { type Checks, callInWords, isSessionsOff, skipped } from "../checks.ts";
import type { Context } from "../context.ts";
import { type Rule, roleOf, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { exchangeCall, mint } from "../sending/test-call.ts";
import { wait } from "../sending/throttle.ts";
import * as usage from "./allowance-burn.ts";

const meters = rulesOf("meters");
const FREE = "publishable_expendable";
const PAID = "publishable_expendable_paid";

const freeLimit = ({ credentials }: Target): number => credentials?.[FREE]?.limit ?? usage.UNKNOWN_MOST;
const paidCap = ({ credentials }: Target) => HARD_STOP_FACTOR * (credentials?.[PAID]?.limit ?? usage.UNKNOWN_MOST);
const burning = (of: KeyRole) => ({ permission: "quota-burn", roles: [of] }) as const;
const mintTile = (context: Context, of: KeyRole): Promise<Answer> => context.send(mint(of, "tile"));
const tokenOf = (answer: Answer | undefined): unknown => answer?.fields.session_token;
const usedIn = ({ fields: { used } }: Answer) => (Number.isInteger(used) ? (used as number) : undefined);

/** Whether a new month may explain an admission. If so, counts the answer as unclear. */
const maybeNew = (context: Context, checks: Checks, answer: Answer): boolean => {
  if (!isAdmitted(answer) || !usage.monthTurns(context.wallMs())) return false;
  const why = "a month has just begun, or is about to: what the target file says is used up may be there again";
  checks.unclear(`${callInWords(answer)}, and ${why}`);
  return true;
};

const readUsed = async (context: Context, checks: Checks) => {
  const answer = await mintTile(context, "publishable_exhausted");
  const used = usedIn(answer);
  if (answer.outcome === usage.EXCEEDED && used !== undefined) return { used, answer };
  if (isSessionsOff(answer)) throw skipped("not-provided", inWords(answer));
  checks.unclear(`used could not be read: ${inWords(answer)}`, "state-unknown");
  return null;
};

/** Mints that may be admitted before the stop: by A8b, the one at exactly five times may still be served. */
const PAST_THE_EDGE = 1;
const REFUSED_AT_ONCE = 6;

const PAIRS = 4;
const ROUNDS = 2;

const mintTogether = async (context: Context, checks: Checks): Promise<void> => {
  for (let round = 0; round < ROUNDS; round++) {
    const short = context.budget.shortage("map_loads", PAIRS);
    if (short !== null) return checks.note(`both at once: not tried, ${short.reason}`);
    const pair = (["publishable", "publishable_exhausted"] as const).map((of) => mint(of, "tile", { atOnce: true }));
    const calls = Array.from({ length: PAIRS }, () => pair).flat();
    for (const answer of await Promise.all(calls.map(context.send))) {
      if (answer.transient) continue;
      const [fits, wanted] =
        roleOf(answer.testCall) === "publishable"
          ? [!usage.isSpent(answer), "a session for the organization that has allowance left"]
          : [!isAdmitted(answer), "no session"];
      checks.require(fits, answer, `${wanted}, also when both ask at once`, inWords(answer));
    }
  }
};

/** Remembers whether the Free organization got exactly its stated allowance in this run; `null` if not tested. */
const figuresHold = (context: Context, found: boolean | null): Promise<boolean | null> =>
  context.once("figures of the allowance hold", async () => found);

/** Judges what was admitted once the count had its time; how exact it is before is not specified (item 234). */
const overCap = (context: Context, checks: Checks, found: usage.Burn, cap: number, expected: string): void => {
  const { admitted, settledFrom } = found;
  const [filling, last] = [admitted[cap - 1], admitted.at(-1)];
  if (admitted.length <= cap || last === undefined) return;
  const lateMs = filling === undefined ? 0 : Math.round((last.received.sentUs - filling.received.sentUs) / 1000);
  const late = lateMs > 0 ? `, the last ${lateMs} ms after the one that used the allowance up` : "";
  const got = `${admitted.length} map loads were admitted within one month${late}`;
  const question = late === "" ? "" : ": does its count lag?";
  if (admitted.length > Math.max(cap, settledFrom)) checks.breach(expected, got + question, admitted.slice(-1));
  else checks.note(`${got}; none more ${context.settleMs / 1000} s later (item 234)`);
};

/** A shed call was not charged; a call without an answer may have been. */
const noteOtherRefusals = (checks: Checks, { other }: usage.Burn): void => {
  for (const answer of other) {
    if (answer.status === 429 || answer.status === 503) checks.note(inWords(answer));
    else checks.unclear(inWords(answer), answer);
  }
};

const spentNote = (of: KeyRole, stop: Answer): string => {
  const used = usedIn(stop);
  const figures = used === undefined ? "" : ` (${used} of ${shapeOf(stop.fields.limit)})`;
  return `the allowance of ${of} is spent for this month${figures}; it was judged in the run that spent it`;
};

/** Ends a rule about a burn with a note. Skips the rule if no map load was admitted and nothing failed. */
const close = (checks: Checks, { of, admitted }: usage.Burn, last: Answer, note: string): void => {
  checks.note(note);
  if (admitted.length === 0 && !checks.failed) throw skipped("refused-for-load", spentNote(of, last));
};

/** A19, the other reading: the exchange returns the existing session, with the rest of its life as `expires_in`. */
const REUSED = "the exchange gives out the same session again (A19), so minting cannot use the allowance up";
/** A9, the other reading: only loads under a session count. */
const NOT_COUNTED = "nothing was refused: a mint is no map load here (A9), so minting cannot use the allowance up";

/** One more mint, alone: a burn's stop may come from a concurrent one, whose `used` is not final. `null` without stop. */
const mintAfter = async (context: Context, checks: Checks, { of, admitted, reused, stop }: usage.Burn) => {
  if (reused > 0 && !checks.failed) throw skipped("not-provided", REUSED);
  if (stop === null) return null;
  const last = await mintTile(context, of);
  const isReused = reused > 0 || (tokenOf(last) !== undefined && admitted.map(tokenOf).includes(tokenOf(last)));
  if (isReused && !checks.failed) throw skipped("not-provided", REUSED);
  return last;
};

/** Judges a burn without a refusal: either only loads under a session count (A9), or nothing does. */
const notCounted = async (context: Context, checks: Checks, found: usage.Burn, most: number): Promise<void> => {
  const { of, admitted, reused } = found;
  if (reused > 0) throw skipped("not-provided", REUSED);
  if (context.budget.left("map_loads") < most) throw skipped("budget-spent", NOT_COUNTED);
  const loads = await usage.loadUnder(context, of, tokenOf(admitted.at(-1)), most);
  const last = await mintTile(context, of);
  if (usage.isStop(last) || loads.some(usage.isStop)) throw skipped("not-provided", NOT_COUNTED);
  const served = loads.filter(isAdmitted).length;
  if (!isAdmitted(last) || served < most)
    throw skipped("not-provided", `${NOT_COUNTED}; without a tile_url that serves, nobody knows what is one`);
  const got = `${admitted.length} mints and ${served} loads under a session were admitted`;
  checks.breach("a refusal once the allowance is used up", got, [last]);
};

/** Whether minting uses up the Free organization's allowance, from earlier answers or by a burn. */
const mintsCount = async (context: Context): Promise<boolean> => {
  const about = context.answers.filter(({ testCall }) => roleOf(testCall) === FREE);
  // A stop after loads under a session says nothing about minting.
  if (!context.has(FREE) || about.some(({ testCall }) => testCall.route.startsWith("maps."))) return false;
  if (about.some(({ outcome }) => outcome === usage.EXCEEDED)) return true;
  if (context.budget.left("map_loads") < freeLimit(context.target) + usage.PAST) return false;
  return (await usage.burn(context, FREE, context.keyRole(FREE)?.limit)).stop !== null;
};

/** Map loads of this run before a burn. A session returned twice counts once. */
const loadedBefore = (context: Context, { of, admitted }: usage.Burn): number => {
  const mine = new Set(admitted.map(({ id }) => id));
  const before = usage.loadsOf(context, of).filter(({ id }) => !mine.has(id));
  return new Set(before.map((answer) => tokenOf(answer) ?? answer.id)).size;
};

/** Whether existing sessions have a soft band that counts (A8, the other reading); `true` if that cannot be seen. */
const hasBandForSessions = async (context: Context, { of, admitted }: usage.Burn, used: number): Promise<boolean> => {
  const loads = await usage.loadUnder(context, of, tokenOf(admitted.at(-1)), usage.PAST);
  if (loads.some(usage.isStop)) return false;
  if (!loads.some(isAdmitted)) return true;
  const isCounted = async () => (usedIn(await mintTile(context, of)) ?? Number.POSITIVE_INFINITY) > used;
  if (await isCounted()) return true;
  await wait(context.settleMs, context.signal);
  return isCounted();
};

const judgeEarlyStop = async (context: Context, checks: Checks, found: usage.Burn, limit: number, last: Answer) => {
  const used = usedIn(last) ?? 0;
  const band = found.isInBand || (found.admitted.length <= limit && used >= limit * HARD_STOP_FACTOR);
  checks.require(!band, last, "map_load_hard_stop after the soft band", `it was ${inWords(last)}`);
  checks.require(used >= limit, last, `no refusal below the allowance of ${limit}`, `used was ${used}`);
  const forSessions = checks.failed || (await hasBandForSessions(context, found, used));
  checks.require(forSessions, last, "a soft band, at least for sessions that are there already (A8)", "nothing counts");
  checks.note("stops at the allowance (A8)");
};

/** A stop at exactly 1 to 4 times the allowance means a wrong limit, if nobody else uses the organization. */
const judgeHardStop = async (context: Context, checks: Checks, found: usage.Burn, limit: number, last: Answer) => {
  const cap = limit * HARD_STOP_FACTOR;
  const count = found.admitted.length + loadedBefore(context, found);
  const times = count / limit;
  const isAnother = [1, 2, 3, 4].includes(times) || count === limit - 1;
  if (isAnother && (await figuresHold(context, null)) !== false) {
    const got = `it stopped after ${count}, which is ${times === 1 ? "" : `${times} times `}the allowance`;
    checks.require(false, last, `map loads past the allowance of ${limit}, up to ${cap}`, got);
  } else if (found.admitted.length > 0 && count < cap - 1)
    checks.unclear(`map loads were refused after ${count} of ${cap}; earlier calls may have used the rest`);
};

/** Loads tried past the end of the allowance; A8b admits at most one. */
const TRIES = 4;
const OTHERS_MAX = 60;

/** The refusal that shows the allowance used up, after using it up if needed. Ends the rule if there is none. */
const spent = async (context: Context): Promise<Answer> => {
  const first = await mintTile(context, FREE);
  if (first.outcome === usage.EXCEEDED) return first;
  context.budget.require("map_loads", freeLimit(context.target) + 1);
  if (isAdmitted(first)) await usage.burn(context, FREE, context.keyRole(FREE)?.limit);
  const last = await mintTile(context, FREE);
  if (last.outcome === usage.EXCEEDED) return last;
  throw skipped("not-provided", `the allowance of ${FREE} is not used up by minting: ${inWords(last)}`);
};

const loadsUnder = (context: Context, of: KeyRole): Promise<Answer[]> => {
  const session = usage.loadsOf(context, of).findLast(({ testCall }) => testCall.route === "sdk.sessions");
  return usage.loadUnder(context, of, tokenOf(session), TRIES, ["maps.loads"]);
};

/** Judges loads of the paid organization. A month may begin meanwhile, so the exchange must refuse before and after. */
const judgePaidLoads = async (context: Context, checks: Checks): Promise<void> => {
  const isHardStopped = async (): Promise<boolean> => (await mintTile(context, PAID)).outcome === usage.HARD_STOP;
  if (!context.has(PAID) || !(await isHardStopped())) return;
  const answers = await loadsUnder(context, PAID);
  const last = answers.at(-1);
  if (last === undefined) return checks.note(`no session of ${PAID} is left to try`);
  if (checks.isUnclear(last)) return;
  if (!isAdmitted(last) || (await isHardStopped())) checks.expect(last, usage.HARD_STOP, answers.slice(0, -1));
};

const burns = rulesOf("quota-burn");

const PAID_BURN = "burn of a paid allowance";
const paidBurnCost = (target: Target) => ({
  calls: paidCap(target) + 5,
  map_loads: paidCap(target) - 2,
  shared: PAID_BURN,
});

/** Uses up the paid allowance, once for two rules. Returns a sentence if the target file does not state it. */
const burnPaid = async (context: Context) => {
  usage.withinAMonth(context);
  const limit = context.keyRole(PAID)?.limit;
  if (limit === undefined) return `credentials.${PAID}.limit: without it nobody knows where the stop is`;
  const cap = limit * HARD_STOP_FACTOR;
  const found = await context.once(PAID_BURN, () => {
    context.budget.require("map_loads", cap);
    return usage.burn(context, PAID, cap, { atOnce: true, bandFrom: limit });
  });
  const expected = `at most ${cap} map loads in a month (${cap + 1} by A8b)`;
  return { limit, cap, found, expected };
};

export const ALLOWANCE_RULES: readonly Rule[] = [
  meters.must("quota-exceeded", [10, 79, 184, 204, 227], {
    title: "a Free organization at its allowance is answered 429 map_load_quota_exceeded for tile",
    expected: "429 map_load_quota_exceeded, with meter map_loads and the whole numbers limit and used",
    needs: { roles: ["publishable_exhausted"] },
    cost: { calls: 2 },
    step: async (context, checks) => {
      const stated = context.keyRole("publishable_exhausted")?.limit;
      for (let i = 0; i < 2; i++) {
        const answer = await mintTile(context, "publishable_exhausted");
        if (maybeNew(context, checks, answer)) continue;
        if (!checks.expect(answer, usage.EXCEEDED) || answer.outcome !== usage.EXCEEDED) continue;
        const { meter, limit, used } = answer.fields;
        const whole = meter === "map_loads" && Number.isInteger(limit) && Number.isInteger(used);
        const came = `they were ${shapeOf({ meter, limit, used })}`;
        if (!checks.require(whole, answer, "meter map_loads, whole numbers limit and used", came)) continue;
        checks.require(Number(used) >= Number(limit), answer, "used at limit or above", came);
        if (stated !== undefined)
          checks.require(limit === stated, answer, `the limit ${stated} of the target file`, came);
      }
    },
  }),
  meters.must("hard-stop", [205, 207, 225], {
    title: "a paid organization at five times its allowance is answered 429 map_load_hard_stop for tile",
    expected: "429 map_load_hard_stop, at most one load later than exactly five times",
    needs: { roles: ["publishable_hard_stop"] },
    cost: { calls: 1 },
    step: async (context, checks) => {
      const admitted: Answer[] = [];
      let answer = await mintTile(context, "publishable_hard_stop");
      while (isAdmitted(answer) && admitted.length < PAST_THE_EDGE && context.budget.left("map_loads") >= 1) {
        admitted.push(answer);
        answer = await mintTile(context, "publishable_hard_stop");
      }
      if (maybeNew(context, checks, answer)) return;
      // By the other reading of A8 the exchange refuses every organization at its allowance, with the subcode of item 79.
      checks.expect(answer, usage.HARD_STOP, admitted, usage.EXCEEDED);
      if (admitted.length > 0) checks.note(`${admitted.length} more were served first`);
    },
  }),
  meters.must("refused-mint-is-not-charged", [79, 184, 222], {
    title: "a refused mint does not change the count of used map loads",
    needs: { roles: ["publishable_exhausted"] },
    cost: { calls: 11 },
    step: async (context, checks) => {
      const of = "publishable_exhausted";
      const before = await readUsed(context, checks);
      if (before === null) return;
      const others = [exchangeCall(of, "foreign", "tile"), exchangeCall(of, "none", "tile"), mint(of, "chat")];
      const refused = [...Array(REFUSED_AT_ONCE).fill(mint(of, "tile")), ...others];
      await context.each(refused, async (call) => {
        const answer = await context.send(call);
        if (isAdmitted(answer) && !maybeNew(context, checks, answer))
          checks.require(false, answer, "a refusal", "it was admitted");
      });
      const after = await readUsed(context, checks);
      const expected = `used still ${before.used} after ${refused.length} refused mints`;
      if (after !== null) checks.require(after.used <= before.used, after.answer, expected, `it was ${after.used}`);
    },
  }),
  rulesOf("organizations").must("allowance-is-per-organization", [10, 227], {
    title: "one organization's used-up allowance stops no other organization",
    needs: { roles: ["publishable_exhausted", "publishable"], spends: { map_loads: 1 } },
    cost: { calls: 18, map_loads: 9 },
    step: async (context, checks) => {
      const exhausted = await mintTile(context, "publishable_exhausted");
      const other = await mintTile(context, "publishable");
      if (!isAdmitted(other) && !other.transient && !usage.isStop(other))
        throw skipped("unclear-answer", `refused for another reason than an allowance: ${callInWords(other)}`);
      if (usage.isSpent(other) && usage.loadsOf(context, "publishable").length === 0)
        checks.unclear(`${callInWords(other)}: its map loads of this month may have been spent before the run`);
      else checks.admits(other, [exhausted]);
      // After a month's turn the exhausted organization would be served.
      if (usage.isSpent(exhausted) && isAdmitted(other) && !usage.monthTurns(context.wallMs()))
        await mintTogether(context, checks);
    },
  }),
  burns.must("allowance-is-exact", [10, 79, 87, 184, 204, 227, 234], {
    title: "a Free organization is served exactly its allowance of map loads, once its count has had its time",
    expected: ({ settleMs }) =>
      `map loads up to the allowance and none more ${settleMs / 1000} s later, then map_load_quota_exceeded`,
    needs: burning(FREE),
    cost: (target) => ({ calls: freeLimit(target) + 5, map_loads: freeLimit(target) }),
    step: async (context, checks) => {
      usage.withinAMonth(context);
      const stated = context.keyRole(FREE)?.limit;
      context.budget.require("map_loads", freeLimit(context.target));
      const found = await usage.burn(context, FREE, stated);
      const { admitted } = found;
      noteOtherRefusals(checks, found);
      if (found.stop === null) return notCounted(context, checks, found, freeLimit(context.target) + usage.PAST);
      if (stated !== undefined) overCap(context, checks, found, stated, `at most ${stated} map loads in a month`);
      const last = await mintAfter(context, checks, found);
      await figuresHold(context, stated === undefined ? null : admitted.length === stated);
      if (last === null || !checks.expect(last, usage.EXCEEDED)) return;
      const used = usedIn(last);
      if (used === undefined) return;
      const limit = Number(last.fields.limit);
      if (stated !== limit) overCap(context, checks, found, limit, `at most ${limit} map loads in a month`);
      // `used` is above the limit after a downgrade or another caller's loads, which admits nothing, and where it lagged.
      const mayBeAbove = admitted.length === 0 || admitted.length > limit;
      const fits = mayBeAbove ? used >= limit : used === limit;
      checks.require(fits, last, `used at the limit, ${limit}`, `used was ${used}`);
      const all = `every one of the ${admitted.length} admitted mints counted`;
      checks.require(used >= admitted.length, last, all, `used was ${used}`);
      close(checks, found, last, `${admitted.length} of ${limit} were left and admitted`);
    },
  }),
  burns.must("other-products-are-not-charged", [80, 225], {
    title: "sessions of other products use up no map loads",
    expected: "tile is served after more chat sessions than the organization has map loads",
    needs: { ...burning(PAID), spends: { map_loads: 2 } },
    cost: (target) => ({ calls: paidCap(target) + 3, map_loads: 2 }),
    step: async (context, checks) => {
      const cap = (context.keyRole(PAID)?.limit ?? OTHERS_MAX) * HARD_STOP_FACTOR;
      if (cap >= OTHERS_MAX) return `the allowance of ${PAID} is too large to be passed`;
      const before = await mintTile(context, PAID);
      if (usage.isStop(before)) return spentNote(PAID, before);
      if (!checks.admits(before)) return;
      await context.each(Array(cap + 1).fill(mint(PAID, "chat")), async (call) => {
        const answer = await context.send(call);
        if (!isAdmitted(answer)) checks.admits(answer);
      });
      checks.admits(await mintTile(context, PAID), [before]);
    },
  }),
  burns.must("soft-band-and-hard-stop", [205, 206, 207, 225, 234], {
    title: "a paid organization goes on past its allowance and stops at five times it with map_load_hard_stop",
    expected: ({ settleMs }) =>
      `map loads up to five times the allowance (one more, by A8b), none ${settleMs / 1000} s later, then map_load_hard_stop`,
    needs: burning(PAID),
    cost: paidBurnCost,
    step: async (context, checks) => {
      const burnt = await burnPaid(context);
      if (typeof burnt === "string") return burnt;
      const { limit, cap, found, expected } = burnt;
      noteOtherRefusals(checks, found);
      // If free organizations are charged for mints, a paid one that never stops is a breach.
      if (found.stop === null && !(await mintsCount(context)))
        return notCounted(context, checks, found, cap + usage.PAST);
      const most = cap + 1 - loadedBefore(context, found);
      overCap(context, checks, found, most, expected);
      const last = await mintAfter(context, checks, found);
      if (last === null) return;
      if (last.outcome === usage.EXCEEDED) await judgeEarlyStop(context, checks, found, limit, last);
      else if (checks.expect(last, usage.HARD_STOP)) await judgeHardStop(context, checks, found, limit, last);
      close(checks, found, last, `${found.admitted.length} were admitted`);
    },
  }),
  // A should: how exact a count is when several ask at once is a gap (item 234), and whoever pays wants to know.
  burns.should("allowance-holds-at-once", [205, 225, 227, 234], {
    title: "map loads that come at once at the end of an allowance are admitted up to it, and none more",
    needs: burning(PAID),
    cost: paidBurnCost,
    step: async (context, checks) => {
      const burnt = await burnPaid(context);
      if (typeof burnt === "string") return burnt;
      const { cap, found, expected } = burnt;
      const { stop, admitted, settledFrom, edgeMetAtOnce, reused } = found;
      if (stop === null || reused > 0) return reused > 0 ? REUSED : "nothing was refused";
      if (admitted.length === 0) return spentNote(PAID, stop);
      const most = cap + 1 - loadedBefore(context, found);
      const atOnce = Math.min(admitted.length, settledFrom);
      const last = admitted[atOnce - 1];
      const got = `${atOnce} were admitted before the count had its time`;
      if (atOnce > most && last !== undefined) checks.require(false, last, expected, got);
      else if (edgeMetAtOnce) checks.fine();
      return "the last unit was asked for by one mint at a time: what several at once would get there is not known";
    },
  }),
  // Only counted loads can use an allowance up: a load that leaves `used` unchanged is no map load here (A9).
  burns.must("used-up-allowance-stops-loads", [10, 204, 205, 225, 227], {
    title: "what stops tile sessions stops counted map loads under sessions that are there already as well",
    expected: "map_load_quota_exceeded, and map_load_hard_stop for a paid organization",
    needs: burning(FREE),
    cost: { calls: 4 },
    step: async (context, checks) => {
      usage.withinAMonth(context);
      const before = await spent(context);
      const answers = await loadsUnder(context, FREE);
      const last = answers.at(-1);
      if (last === undefined) return `no session of ${FREE} is left: it was spent in an earlier run`;
      if (checks.isUnclear(last)) return;
      if (!isAdmitted(last) && !usage.isStop(last)) return `POST /maps/loads is not offered: ${inWords(last)}`;
      if (usage.isStop(last)) checks.expect(last, usage.EXCEEDED);
      else {
        const [from, to] = [usedIn(before), usedIn(await mintTile(context, FREE))];
        if (from === undefined || to === undefined || to < from + answers.length)
          return "POST /maps/loads counts nothing here (A9)";
        const counted = `${answers.length} more were admitted, and used went from ${from} to ${to}`;
        checks.require(false, last, "no map load past the allowance of a Free organization", counted);
      }
      await judgePaidLoads(context, checks);
    },
  }),
];
