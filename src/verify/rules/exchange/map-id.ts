/** The optional member `map_id` of the exchange's body (items 66-67, 89): any text is one; what it does is not shown. */
import { ANY_SUCCESS, Checks, isSessionsOff } from "../../checks.ts";
import type { Context } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { exchangeCall } from "../../sending/test-call.ts";
import { isMalformed, wordingOf } from "../../wording.ts";

/** Texts that a map may be called by. */
const MAP_IDS = [
  "floodgate-verify",
  "3f2b8c1e-5d64-4a7b-9c1d-2e6f8a9b0c1d",
  "map_9f8e7d6c",
  "507f1f77bcf86cd799439011",
  "12345",
];

const withMember = (context: Context, member: object, what: string): Promise<Answer> =>
  context.send(
    exchangeCall("publishable", "listed", "chat", {
      body: { text: JSON.stringify({ product: "chat", ...member }), is: "ok" },
      what,
      open: true,
    }),
  );

const firstMapId = (context: Context): Promise<Answer> =>
  context.once("map_id", () => withMember(context, { map_id: MAP_IDS[0] }, "a body with a map_id"));

const mapId: Rule = {
  id: "exchange-takes-map-id",
  level: "should",
  spec: [66, 89],
  title: "the exchange takes the optional map_id",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 1, shared: "map_id" },
  run: async (context) => {
    const checks = new Checks("200 or 201");
    checks.expect(await firstMapId(context), { accepts: [ANY_SUCCESS] });
    return checks.result();
  },
};

/** One variant has no map_id, and a map may be looked up: what knows no other member either, or says another word, is that. */
const mapIdIsWellFormed: Rule = {
  id: "map-id-is-not-malformed",
  level: "must",
  spec: [66, 67, 89],
  title: "the exchange calls a body with a text as map_id not malformed, where it takes members that nobody knows",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 1, shared: "map_id" },
  run: async (context) => {
    const checks = new Checks("map_id to be taken, whatever text it is");
    const first = await firstMapId(context);
    if (first.transient) checks.unclear(inWords(first));
    if (isAdmitted(first)) checks.fine();
    if (!isMalformed(first) || isSessionsOff(first)) return checks.result(`map_id: ${inWords(first)}`);
    const unknown = await withMember(context, { floodgate_verify: "7" }, "a body with a member that nobody knows");
    const broken = await context.send(
      exchangeCall("publishable", "listed", "chat", {
        body: { text: '{"product": "chat", ', is: "malformed" },
        what: "broken JSON",
        open: true,
      }),
    );
    if (!isAdmitted(unknown))
      return checks.result("members that nobody knows are refused as well: a variant without it");
    if (wordingOf(first) !== wordingOf(broken))
      return checks.result(`what map_id does is not shown: ${inWords(first)}`);
    for (const map_id of MAP_IDS.slice(1)) {
      const answer = await withMember(context, { map_id }, `a body with the map_id ${map_id}`);
      if (answer.transient) checks.unclear(inWords(answer));
      if (!isMalformed(answer)) return checks.result(`not every text is taken as map_id: ${inWords(first)}`);
    }
    checks.breach({
      expected: "map_id to be taken",
      got: `${inWords(first)} for every text tried as map_id, and ${unknown.outcome} for a member that nobody knows`,
      steps: [unknown, first],
      accepts: [ANY_SUCCESS],
    });
    return checks.result();
  },
};

export const MAP_ID_RULES: readonly Rule[] = [mapId, mapIdIsWellFormed];
