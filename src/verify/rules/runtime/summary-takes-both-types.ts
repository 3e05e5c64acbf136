/**
 * A summary is streamed of either type (item 93). Beside the type its fields are not shown, so a refusal alone says nothing:
 * it is compared with the other type and with one that does not exist, only where something was refused.
 */
import { ANY_SUCCESS, Checks } from "../../checks.ts";
import { type Context, callersOf } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import type { TestCall } from "../../sending/test-call.ts";
import { isMalformed, reasonIn } from "../../wording.ts";

const TYPES = ["poi", "building"] as const;
type SummaryType = (typeof TYPES)[number] | "floodgate-no-such-type";
/** Beside the type, all that such a summary could need. */
const MUCH = {
  name: "Harbour",
  lat: 52.52,
  lon: 13.37,
  id: "1",
  category: "cafe",
  address: "Harbour 1",
  lang: "en",
  location: { lat: 52.52, lon: 13.37 },
  height: 12,
  levels: 4,
  osm_id: 1,
  properties: {},
  tags: {},
};

const summary = (caller: Pick<TestCall, "credential" | "origin">, type: SummaryType, more: object): TestCall => ({
  route: "chat.summary",
  ...caller,
  body: { text: JSON.stringify({ type, ...more }), is: "ok" },
  what: `a summary of type ${type}`,
});

/** Every caller once and either type once. */
export const summariesOfEitherType = (context: Context): Promise<Answer[]> =>
  context.once("summaries of either type", async () => {
    const callers = callersOf(context, "ai");
    const testCalls = TYPES.flatMap((type, i) => {
      const caller = callers[i % Math.max(1, callers.length)];
      return caller === undefined ? [] : [summary(caller, type, { name: "Harbour" })];
    });
    return Promise.all(testCalls.map((testCall) => context.send(testCall)));
  });

export const summaryTypes: Rule = {
  id: "summary-takes-both-types",
  level: "must",
  spec: [93],
  title: "a summary is streamed of a poi and of a building alike",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
  cost: { calls: 2, shared: "summaries" },
  run: async (context) => {
    const checks = new Checks("either type to be taken where the other is");
    const answers = await summariesOfEitherType(context);
    for (const answer of answers) if (isAdmitted(answer)) checks.fine();
    const caller = callersOf(context, "ai")[0];
    const at = answers.findIndex(isMalformed);
    const type = TYPES[at];
    const other = TYPES[1 - at];
    if (caller === undefined || type === undefined || other === undefined) return checks.result();
    const ask = (of: SummaryType): Promise<Answer> => context.send({ ...summary(caller, of, MUCH), open: true });
    const taken = await ask(other);
    const refused = await ask(type);
    const unknown = await ask("floodgate-no-such-type");
    for (const { transient, outcome } of [taken, refused, unknown]) if (transient) checks.unclear(outcome);
    if (!isAdmitted(taken)) checks.note("refused for either type: the other fields are not shown");
    else if (isAdmitted(refused)) checks.note(`type ${type} needs more fields`);
    else if (isMalformed(refused) && isMalformed(unknown)) {
      const same = reasonIn(refused, type) === reasonIn(unknown, "floodgate-no-such-type");
      const got = `type ${other}: ${taken.outcome}; type ${type}: ${inWords(refused)}, as for a type that does not exist`;
      if (!same) checks.note(`type ${type}: ${inWords(refused)}, the other fields are not shown`);
      else
        checks.breach({ expected: `type ${type} to be taken`, got, steps: [taken, refused], accepts: [ANY_SUCCESS] });
    }
    return checks.result("refused for either type: the other fields are not shown in the specification");
  },
};
