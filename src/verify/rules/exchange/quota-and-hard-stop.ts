/** The allowance of map loads where it is used up (items 79-80, 184, 204-207, 222, 227; A8, A8b). Burns nothing on purpose. */
import { shapeOf } from "../../../contract/foreign-text.ts";
import { outcomeOf } from "../../../contract/refusals.ts";
import { CannotJudge } from "../../cannot-judge.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { ANY_SUCCESS, Checks, callInWords, isSessionsOff } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { monthIsNew } from "../../limits/month-windows.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { exchangeCall } from "../../sending/test-call.ts";

const EXCEEDED = outcomeOf("map_load_quota_exceeded");
const HARD_STOP = outcomeOf("map_load_hard_stop");

const tileOf = (of: "publishable_exhausted" | "publishable_hard_stop") => exchangeCall(of, "listed", "tile");

export const usedIn = (answer: Answer): number | undefined =>
  Number.isInteger(answer.fields.used) ? (answer.fields.used as number) : undefined;

/** On the first of a month an allowance that was used up is there again, and being served is no breach. */
const maybeNew = (context: Context, checks: Checks, answer: Answer): boolean => {
  if (!isAdmitted(answer) || !monthIsNew(context.wallMs())) return false;
  checks.unclear(
    `${callInWords(answer)}, and a month has just begun: what the target file says is used up may be there again`,
  );
  return true;
};

const exceeded: Rule = {
  id: "quota-exceeded",
  level: "must",
  spec: [10, 79, 184, 204, 227],
  title: "a Free organization at its allowance is answered 429 map_load_quota_exceeded for tile",
  phase: "meters",
  needs: { roles: ["publishable_exhausted"] },
  cost: { calls: 2 },
  run: async (context) => {
    const checks = new Checks("429 map_load_quota_exceeded, with meter map_loads and the whole numbers limit and used");
    const stated = context.keyRole("publishable_exhausted")?.limit;
    for (let i = 0; i < 2; i++) {
      const answer = await context.send(tileOf("publishable_exhausted"));
      if (maybeNew(context, checks, answer)) continue;
      if (!checks.expect(answer, { accepts: [EXCEEDED] }) || answer.outcome !== EXCEEDED) continue;
      const { meter, limit, used } = answer.fields;
      const whole = meter === "map_loads" && Number.isInteger(limit) && Number.isInteger(used);
      const came = shapeOf({ meter, limit, used });
      if (!checks.require(whole, answer, "meter map_loads, whole numbers limit and used", `they were ${came}`))
        continue;
      checks.require((used as number) >= (limit as number), answer, "used at limit or above", `they were ${came}`);
      if (stated !== undefined) {
        checks.require(limit === stated, answer, `the limit ${stated} of the target file`, `they were ${came}`);
      }
    }
    return checks.result();
  },
};

/** A8b: "over five times" may mean that the load at exactly five times is still served. */
const PAST_THE_EDGE = 2;

const hardStop: Rule = {
  id: "hard-stop",
  level: "must",
  spec: [205, 207, 225],
  title: "a paid organization at five times its allowance is answered 429 map_load_hard_stop for tile",
  phase: "meters",
  needs: { roles: ["publishable_hard_stop"] },
  cost: { calls: 1 },
  run: async (context) => {
    const checks = new Checks("429 map_load_hard_stop, at most one load later than exactly five times");
    const admitted: Answer[] = [];
    let answer = await context.send(tileOf("publishable_hard_stop"));
    while (isAdmitted(answer) && admitted.length < PAST_THE_EDGE && context.budget.left("map_loads") >= 1) {
      admitted.push(answer);
      answer = await context.send(tileOf("publishable_hard_stop"));
    }
    if (maybeNew(context, checks, answer)) return checks.result();
    // A8, the other reading: the exchange refuses everybody at the allowance, in the words of the allowance.
    checks.expect(answer, { accepts: [HARD_STOP], tolerates: [EXCEEDED] }, admitted);
    if (admitted.length > 0) checks.note(`${admitted.length} more were served first`);
    return checks.result();
  },
};

const hardStopElsewhere = tableRule({
  id: "quota-concerns-tile-only",
  level: "must",
  spec: [80, 205, 225],
  title: "an organization past its map loads still mints other products",
  phase: "meters",
  needs: { roles: ["publishable_hard_stop"] },
  cost: { calls: 2 },
  cells: () =>
    (["chat", "editor"] as const).map(
      (product): Cell => ({
        testCall: exchangeCall("publishable_hard_stop", "listed", product),
        accepts: [ANY_SUCCESS],
      }),
    ),
});

const readUsed = async (context: Context, checks: Checks): Promise<{ used: number; answer: Answer } | null> => {
  const answer = await context.send(tileOf("publishable_exhausted"));
  const used = usedIn(answer);
  if (answer.outcome === EXCEEDED && used !== undefined) return { used, answer };
  if (isSessionsOff(answer)) throw new CannotJudge("skipped", inWords(answer));
  checks.unclear(`used could not be read: ${inWords(answer)}`);
  return null;
};

const REFUSED_AT_ONCE = 6;

const refusedIsFree: Rule = {
  id: "refused-mint-is-not-charged",
  level: "must",
  spec: [79, 184, 222],
  title: "a refused mint leaves used as it was",
  phase: "meters",
  needs: { roles: ["publishable_exhausted"] },
  cost: { calls: 11 },
  run: async (context) => {
    const checks = new Checks("the same used before and after refused mints");
    const before = await readUsed(context, checks);
    if (before === null) return checks.result();
    const refused = [
      ...Array.from({ length: REFUSED_AT_ONCE }, () => tileOf("publishable_exhausted")),
      exchangeCall("publishable_exhausted", "foreign", "tile"),
      exchangeCall("publishable_exhausted", "none", "tile"),
      exchangeCall("publishable_exhausted", "listed", "chat"),
    ];
    await context.each(refused, async (testCall) => {
      const answer = await context.send(testCall);
      if (isAdmitted(answer) && !maybeNew(context, checks, answer))
        checks.require(false, answer, "a refusal", "it was admitted");
    });
    const after = await readUsed(context, checks);
    if (after === null) return checks.result();
    // A new month starts again at nothing, so less is no breach.
    checks.require(
      after.used <= before.used,
      after.answer,
      `used still ${before.used} after ${refused.length} refused mints`,
      `it was ${after.used}`,
    );
    return checks.result();
  },
};

export const METER_RULES: readonly Rule[] = [exceeded, hardStop, hardStopElsewhere, refusedIsFree];
