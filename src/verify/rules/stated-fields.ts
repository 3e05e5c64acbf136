/**
 * Fields that the specification lists by name are taken as it lists them (items 93, 99): optional ones with and without, one
 * of two values like the other. The types and the other fields of these calls are not shown, so a refusal alone says nothing:
 * it is compared with calls that differ in nothing else. The comparisons are made only where something was refused.
 */
import { type Answer, isAdmitted, told } from "../answer.ts";
import { ANY_SUCCESS, Checks } from "../checks.ts";
import { type Context, callersOf } from "../context.ts";
import type { Probe } from "../probe.ts";
import type { Rule } from "../rule.ts";
import { isMalformed, reasonIn } from "../wording.ts";

const isServed = (answer: Answer): boolean => isAdmitted(answer) || answer.status === 404;

const REQUIRED = { lat: "52.52", lon: "13.37", name: "Cafe", category: "cafe" };
/** Values that nobody would be surprised by; the first of each go together. */
const OPTIONAL: Readonly<Record<string, readonly string[]>> = {
  lang: ["en", "en-US", "de"],
  source: ["osm", "search"],
  id: ["1", "node/1"],
  poi_context: ["cafe", "{}"],
};

const askPoi = async (context: Context, more: Readonly<Record<string, string>>): Promise<Answer> => {
  const caller = callersOf(context, "ai")[0] as { credential: Probe["credential"]; origin: "listed" | "none" };
  const names = Object.keys(more).join(", ");
  return context.send({
    route: "poi.enrich",
    ...caller,
    path: `/retrieval/poi/enrich?${new URLSearchParams({ ...REQUIRED, ...more })}`,
    what: names === "" ? "the required parameters alone" : `the required parameters and ${names}`,
    open: true,
  });
};

const poiOptions: Rule = {
  id: "poi-optional-parameters",
  level: "must",
  spec: [99],
  title: "a place is enriched with and without the optional parameters of the query",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
  run: async (context) => {
    const checks = new Checks("the same with the optional parameters and without");
    const first = Object.fromEntries(Object.entries(OPTIONAL).map(([name, [value = ""]]) => [name, value]));
    const bare = await askPoi(context, {});
    const full = await askPoi(context, first);
    for (const answer of [bare, full]) {
      if (answer.transient) checks.unclear(told(answer));
      else if (isServed(answer)) checks.fine();
      else if (!isMalformed(answer)) checks.note(`${answer.probe.what}: ${told(answer)}`);
    }
    const tries = Object.entries(OPTIONAL).flatMap(([name, values]) => values.map((value) => ({ [name]: value })));
    if (isMalformed(bare)) {
      let served = isServed(full) ? full : undefined;
      for (const more of served === undefined ? tries : []) {
        const answer = await askPoi(context, more);
        if (isServed(answer)) served = answer;
        if (served !== undefined) break;
      }
      if (served === undefined) checks.note("refused with and without: the types of the query are not shown");
      else {
        const got = `${told(bare)} for the required parameters alone, and ${served.outcome} for ${served.probe.what}`;
        checks.breach({
          expected: "none of the optional parameters to be needed",
          got,
          steps: [served, bare],
          accepts: [ANY_SUCCESS],
        });
      }
    } else if (isMalformed(full) && isServed(bare)) {
      let last = full;
      for (const more of tries) {
        last = await askPoi(context, more);
        if (!isMalformed(last)) break;
      }
      if (last.transient) checks.unclear(told(last));
      else if (!isMalformed(last)) checks.note(`not every value of an optional parameter is taken: ${told(full)}`);
      else {
        const names = Object.keys(OPTIONAL).join(", ");
        const got = `${bare.outcome} for the required parameters alone, and ${told(last)} with any of ${names}`;
        checks.breach({ expected: "the optional parameters to be taken", got, steps: [bare, last], accepts: null });
      }
    }
    return checks.result("the types of the query are not shown in the specification");
  },
};

const TYPES = ["poi", "building"] as const;
type SummaryType = (typeof TYPES)[number] | "floodgate-no-such-type";
/** Beside the type, all that such a summary could need. */
const MUCH = {
  ...{ name: "Harbour", lat: 52.52, lon: 13.37, id: "1", category: "cafe", address: "Harbour 1", lang: "en" },
  ...{ location: { lat: 52.52, lon: 13.37 }, height: 12, levels: 4, osm_id: 1, properties: {}, tags: {} },
};

const summary = (caller: Pick<Probe, "credential" | "origin">, type: SummaryType, more: object): Probe => ({
  route: "chat.summary",
  ...caller,
  body: { text: JSON.stringify({ type, ...more }), is: "ok" },
  what: `a summary of type ${type}`,
});

/** Every caller once and either type once. */
export const summariesOfEitherType = (context: Context): Promise<Answer[]> =>
  context.once("summaries of either type", async () => {
    const callers = callersOf(context, "ai");
    const probes = TYPES.flatMap((type, i) => {
      const caller = callers[i % Math.max(1, callers.length)];
      return caller === undefined ? [] : [summary(caller, type, { name: "Harbour" })];
    });
    return Promise.all(probes.map((probe) => context.send(probe)));
  });

const summaryTypes: Rule = {
  id: "summary-takes-both-types",
  level: "must",
  spec: [93],
  title: "a summary is streamed of a poi and of a building alike",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
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
      const got = `type ${other}: ${taken.outcome}; type ${type}: ${told(refused)}, as for a type that does not exist`;
      if (!same) checks.note(`type ${type}: ${told(refused)}, the other fields are not shown`);
      else
        checks.breach({ expected: `type ${type} to be taken`, got, steps: [taken, refused], accepts: [ANY_SUCCESS] });
    }
    return checks.result("refused for either type: the other fields are not shown in the specification");
  },
};

export const STATED_FIELD_RULES: readonly Rule[] = [poiOptions, summaryTypes];
