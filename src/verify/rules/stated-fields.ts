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
const ADDRESS = "https://cafe.example/1";
/** Values that nobody would be surprised by; the first of each go together. */
const OPTIONAL: Readonly<Record<string, readonly string[]>> = {
  lang: ["en", "en-US", "de", "fr", "es", "EN"],
  source: ["osm", "search", "map", "1", ADDRESS],
  id: ["1", "node/1", "cafe", "Q42", "00000000-0000-4000-8000-000000000001", ADDRESS],
  poi_context: ["cafe", "{}", "1", '{"name":"Cafe"}', ADDRESS],
};

const askPoi = async (
  context: Context,
  more: Readonly<Record<string, string>>,
  required: Readonly<Record<string, string>> = REQUIRED,
): Promise<Answer> => {
  const caller = callersOf(context, "ai")[0] as { credential: Probe["credential"]; origin: "listed" | "none" };
  const names = Object.keys(more).join(", ");
  return context.send({
    route: "poi.enrich",
    ...caller,
    path: `/retrieval/poi/enrich?${new URLSearchParams({ ...required, ...more })}`,
    what: names === "" ? "the required parameters alone" : `the required parameters and ${names}`,
    open: true,
  });
};

/** `taken`: the first of its values that was not called malformed; `refused`: the others, in order. */
type Tried = { name: string; taken: Answer | null; refused: Answer[] };
type PoiCalls = { bare: Answer; full: Answer; tried: readonly Tried[] };

/** One parameter at a time, where all of them together were refused, or none was. */
const poiCalls = (context: Context): Promise<PoiCalls> =>
  context.once("optional parameters of a place", async () => {
    const first = Object.fromEntries(Object.entries(OPTIONAL).map(([name, [value = ""]]) => [name, value]));
    const bare = await askPoi(context, {});
    const full = await askPoi(context, first);
    const tried: Tried[] = [];
    // Which one of them is needed is the question here; below, which one is not taken.
    const inDoubt = isMalformed(bare) ? !isServed(full) : isMalformed(full) && isServed(bare);
    for (const [name, values] of inDoubt ? Object.entries(OPTIONAL) : []) {
      const refused: Answer[] = [];
      let taken: Answer | null = null;
      for (const value of values) {
        const answer = await askPoi(context, { [name]: value });
        if (isMalformed(answer)) refused.push(answer);
        else taken = answer;
        if (taken !== null) break;
      }
      tried.push({ name, taken, refused });
      if (isMalformed(bare) && taken !== null && isServed(taken)) break;
    }
    return { bare, full, tried };
  });

const neverTaken = ({ tried }: PoiCalls): Tried[] => tried.filter(({ taken }) => taken === null);

const UNLISTED = "floodgate_option";

/**
 * Whether a service itself says that it does not know a parameter: it refuses it in the words in which it refuses one that
 * is not listed, and not in those for a value that is malformed. A list of values that we did not guess is told otherwise.
 */
const saysUnknown = async (context: Context, { name, refused }: Tried): Promise<Answer | null> => {
  const [first] = refused;
  const [value = ""] = OPTIONAL[name] ?? [];
  if (first === undefined) return null;
  const unlisted = await askPoi(context, { [UNLISTED]: value });
  const malformed = await askPoi(context, {}, { ...REQUIRED, lat: "north" });
  if (!isMalformed(unlisted) || !isMalformed(malformed)) return null;
  const said = reasonIn(first, name, value);
  if (said !== reasonIn(unlisted, UNLISTED, value)) return null;
  return said === reasonIn(malformed, "lat", "north") ? null : unlisted;
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
    const calls = await poiCalls(context);
    const { bare, full, tried } = calls;
    for (const answer of [bare, full]) {
      if (answer.transient) checks.unclear(told(answer));
      else if (isServed(answer)) checks.fine();
      else if (!isMalformed(answer)) checks.note(`${answer.probe.what}: ${told(answer)}`);
    }
    if (isMalformed(bare)) {
      const served = [full, ...tried.map(({ taken }) => taken)].find((answer) => answer !== null && isServed(answer));
      if (served === undefined || served === null) {
        checks.note("refused with and without: the types of the query are not shown");
      } else {
        const got = `${told(bare)} for the required parameters alone, and ${served.outcome} for ${served.probe.what}`;
        checks.breach({
          expected: "none of the optional parameters to be needed",
          got,
          steps: [served, bare],
          accepts: [ANY_SUCCESS],
        });
      }
      return checks.result("the types of the query are not shown in the specification");
    }
    for (const { taken } of tried) if (taken?.transient === true) checks.unclear(told(taken));
    const never = neverTaken(calls);
    const breach = (name: string, refused: Answer | undefined, more: Answer[] = []): void => {
      if (refused === undefined) return;
      const got = `${bare.outcome} for the required parameters alone, and ${told(refused)} with ${name}`;
      checks.breach({ expected: `${name} to be taken`, got, steps: [bare, ...more, refused], accepts: null });
    };
    if (tried.length > 0 && never.length === tried.length) {
      breach(`any of ${Object.keys(OPTIONAL).join(", ")}`, never[0]?.refused[0]);
    } else {
      for (const one of never) {
        // What a language is called is no secret; what the others hold is not shown.
        if (one.name === "lang") breach(`lang as any of ${OPTIONAL.lang?.join(", ")}`, one.refused[0]);
        else {
          const unlisted = await saysUnknown(context, one);
          if (unlisted !== null)
            breach(`${one.name}, as with a parameter that is not listed`, one.refused[0], [unlisted]);
        }
      }
      if (tried.length > 0) checks.note(`not every value of an optional parameter is taken: ${told(full)}`);
    }
    return checks.result("the types of the query are not shown in the specification");
  },
};

const eachPoiOption: Rule = {
  id: "poi-takes-each-parameter",
  level: "should",
  spec: [99],
  title: "each optional parameter of a place is taken with one of the values that anybody would try",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
  run: async (context) => {
    const checks = new Checks("each of the optional parameters to be taken with some value");
    const calls = await poiCalls(context);
    if (isServed(calls.full)) checks.fine();
    if (isServed(calls.bare)) {
      for (const { taken } of calls.tried) if (taken !== null && isServed(taken)) checks.fine();
      const never = neverTaken(calls);
      // What the other rule says is not said twice.
      const rest = never.length === calls.tried.length ? [] : never.filter(({ name }) => name !== "lang");
      for (const { name, refused } of rest) {
        const got = `${told(refused[0] as Answer)}, with ${(OPTIONAL[name] ?? []).join(", ")} alike`;
        checks.breach({ expected: `${name} to be taken`, got, steps: [calls.bare, ...refused], accepts: null });
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

export const STATED_FIELD_RULES: readonly Rule[] = [poiOptions, eachPoiOption, summaryTypes];
