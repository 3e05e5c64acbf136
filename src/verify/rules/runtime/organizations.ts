/** Two organizations side by side (items 43, 127, 227): what belongs to one opens nothing at the other. */
import { outcomeOf } from "../../../contract/refusals.ts";
import { CannotJudge } from "../../cannot-judge.ts";
import { tableRule } from "../../cells.ts";
import { ANY_SUCCESS, Checks, callInWords } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { isSpent, loadsOf } from "../../limits/allowance-burn.ts";
import { monthIsNew } from "../../limits/month-windows.ts";
import type { Rule } from "../../rule.ts";
import { inWords, isAdmitted } from "../../sending/answer.ts";
import { exchangeCall, role } from "../../sending/test-call.ts";

const MISMATCH = outcomeOf("session_origin_mismatch");

const othersOrigin = tableRule({
  id: "origin-of-another-organization",
  level: "must",
  spec: [43, 72, 151],
  title: "an Origin that only another organization's key lists is refused",
  phase: "organizations",
  needs: { roles: ["publishable", "publishable_other_org"] },
  cost: { calls: 3 },
  nothing: "publishable and publishable_other_org have the same origin in the target file, or none",
  cells: (context) => {
    const [ours, theirs] = [context.keyRole("publishable")?.origin, context.keyRole("publishable_other_org")?.origin];
    if (ours === undefined || theirs === undefined || ours === theirs) return [];
    return [
      { testCall: exchangeCall("publishable", "foreign", "chat", { originValue: theirs }), accepts: [MISMATCH] },
      {
        testCall: exchangeCall("publishable_other_org", "foreign", "chat", { originValue: ours }),
        accepts: [MISMATCH],
      },
      {
        testCall: {
          route: "poi.enrich",
          credential: { as: "session", of: role("publishable"), product: "chat" },
          origin: "foreign",
          originValue: theirs,
        },
        accepts: [MISMATCH],
      },
    ];
  },
});

/** Any other refusal is not about map loads, and other rules say whether it is right. */
const ALLOWANCE: ReadonlySet<string> = new Set(["map_load_quota_exceeded", "map_load_hard_stop"]);

const PAIRS = 4;
const ROUNDS = 2;

/** Who is who may get lost between the checks and the charge, while others are in the same place: alone nobody sees it. */
const mintTogether = async (context: Context, checks: Checks): Promise<void> => {
  for (let round = 0; round < ROUNDS; round++) {
    const short = context.short("map_loads", PAIRS);
    if (short !== null) return checks.note(`both at once: not tried, ${short.reason}`);
    const testCalls = Array.from({ length: 2 * PAIRS }, (_, i) =>
      exchangeCall(i % 2 === 0 ? "publishable" : "publishable_exhausted", "listed", "tile", { atOnce: true }),
    );
    const answers = await Promise.all(testCalls.map((testCall) => context.send(testCall)));
    for (const [i, answer] of answers.entries()) {
      if (answer.transient) continue;
      const fits = i % 2 === 0 ? !isSpent(answer) : !isAdmitted(answer);
      const wanted = i % 2 === 0 ? "a session for the organization that has allowance left" : "no session";
      checks.require(fits, answer, `${wanted}, also when both ask at once`, inWords(answer));
    }
  }
};

const quotaPerOrganization: Rule = {
  id: "allowance-is-per-organization",
  level: "must",
  spec: [10, 227],
  title: "one organization's used-up allowance stops no other organization",
  phase: "organizations",
  needs: { roles: ["publishable_exhausted", "publishable"], spends: { map_loads: 1 } },
  cost: { calls: 18, map_loads: 9 },
  run: async (context) => {
    const checks = new Checks("a tile session for an organization that has allowance left");
    const exhausted = await context.send(exchangeCall("publishable_exhausted", "listed", "tile"));
    const other = await context.send(exchangeCall("publishable", "listed", "tile"));
    const ofAnAllowance = other.subcode !== null && ALLOWANCE.has(other.subcode);
    if (!isAdmitted(other) && !other.transient && !ofAnAllowance) {
      throw new CannotJudge("skipped", `refused for another reason than an allowance: ${callInWords(other)}`);
    }
    if (isSpent(other) && loadsOf(context, "publishable").length === 0) {
      checks.unclear(`${callInWords(other)}: its map loads of this month may have been spent before the run`);
    } else checks.expect(other, { accepts: [ANY_SUCCESS] }, [exhausted]);
    // What was refused in the old month is served in the new one.
    if (isSpent(exhausted) && isAdmitted(other) && !monthIsNew(context.wallMs())) await mintTogether(context, checks);
    return checks.result();
  },
};

const bothWork: Rule = {
  id: "organizations-are-served-alike",
  level: "must",
  spec: [46, 74],
  title: "a second organization with the same plan is served the same",
  phase: "organizations",
  needs: { roles: ["publishable_other_org"] },
  cost: { calls: 2 },
  run: async (context) => {
    const checks = new Checks("2xx");
    const minted = await context.send(exchangeCall("publishable_other_org", "listed", "chat"));
    // Without a session there is nothing more to ask for, and what was found must not be lost with it.
    if (!checks.expect(minted, { accepts: [ANY_SUCCESS] })) return checks.result();
    const place = await context.send({
      route: "poi.enrich",
      credential: { as: "session", of: role("publishable_other_org"), product: "chat" },
      origin: "listed",
    });
    // Its query's types are not shown, and nobody says that this place is known.
    if (place.status === 404 || place.status === 422) checks.note(inWords(place));
    else checks.expect(place, { accepts: [ANY_SUCCESS] });
    return checks.result();
  },
};

export const ORGANIZATION_RULES: readonly Rule[] = [othersOrigin, quotaPerOrganization, bothWork];
