/** Optional members, whose types are not specified: a refused call is compared with one that differs in one thing. */

import { ANY_SUCCESS, type Checks, isSessionsOff } from "../checks.ts";
import { type Context, callerOf, scopeOf } from "../context.ts";
import { type Rule, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted, isMalformed, reasonIn, wordingOf } from "../sending/answer.ts";
import { body, json, mint, type TestCall } from "../sending/test-call.ts";
import { specimens } from "./streams.ts";

const { must, should } = rulesOf("lattice", { needs: { anyOf: ["publishable", "server"] } });

type Route = "chat.control" | "chat.summary" | "poi.enrich" | "design.analyze";

const ask = (context: Context, route: Route, more: Partial<TestCall>): Promise<Answer> =>
  context.send({ ...callerOf(context, scopeOf(route)), route, ...more });

const SPARE_ANALYSES = 5;
const DATASET = {
  columns: [
    { name: "city", type: "string" },
    { name: "people", type: "number" },
  ],
  sample_rows: [{ city: "Bern", people: 137_000 }],
};

/** Analyses without a prompt, and with one if that was refused or the budget has spare ones. */
export const analyses = (context: Context): Promise<Answer[]> =>
  context.once("analyses", async () => {
    if (context.budget.left("analyses") < 1) return [];
    const analyse = (what: string, more: object): Promise<Answer> =>
      ask(context, "design.analyze", { what, body: json({ dataset: DATASET, ...more }) });
    const bare = await analyse("a dataset without a prompt", {});
    if (isAdmitted(bare) ? context.budget.left("analyses") < SPARE_ANALYSES : !isMalformed(bare)) return [bare];
    return [bare, await analyse("a dataset with a prompt", { prompt: "Show where most people live" })];
  });

const TYPES = ["poi", "building"] as const;
const NO_TYPE = "floodgate-no-such-type";
type AnyType = (typeof TYPES)[number] | typeof NO_TYPE;
const ANY_SUMMARY = {
  ...{ name: "Harbour", lat: 52.52, lon: 13.37, id: "1", category: "cafe", address: "Harbour 1", lang: "en" },
  ...{ location: { lat: 52.52, lon: 13.37 }, height: 12, levels: 4, osm_id: 1, properties: {}, tags: {} },
};

const summary = (type: AnyType, more: object) =>
  ({ route: "chat.summary", what: `a summary of type ${type}`, body: json({ type, ...more }) }) as const;

export const summariesOfEitherType = (context: Context): Promise<Answer[]> =>
  context.once("summaries of either type", () =>
    context.each([...TYPES.entries()], ([i, type]) =>
      context.send({ ...callerOf(context, "ai", i), ...summary(type, { name: "Harbour" }) }),
    ),
  );

const REQUIRED = { lat: "52.52", lon: "13.37", name: "Cafe", category: "cafe" };
const ADDRESS = "https://cafe.example/1";
/** Likely values of each parameter; the first ones are sent together. */
const OPTIONAL: Readonly<Record<string, readonly string[]>> = {
  lang: ["en", "en-US", "de", "fr", "es", "EN"],
  source: ["osm", "search", "map", "1", ADDRESS],
  id: ["1", "node/1", "cafe", "Q42", "00000000-0000-4000-8000-000000000001", ADDRESS],
  poi_context: ["cafe", "{}", "1", '{"name":"Cafe"}', ADDRESS],
};
const UNLISTED = "floodgate_option";

type Parameters = Readonly<Record<string, string>>;

const firstOfEach = (values: Readonly<Record<string, readonly unknown[]>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(values).map(([name, [first]]) => [name, first]));

const askPoi = (context: Context, more: Parameters, required: Parameters = REQUIRED): Promise<Answer> => {
  const names = Object.keys(more).join(", ");
  const what = names === "" ? "the required parameters alone" : `the required parameters and ${names}`;
  const path = `/retrieval/poi/enrich?${new URLSearchParams({ ...required, ...more })}`;
  return ask(context, "poi.enrich", { what, path, open: true });
};

const isPoiServed = (answer: Answer): boolean => isAdmitted(answer) || answer.status === 404;

/** Sends one value after the other until one is not called malformed. */
const untilTaken = async <V>(values: readonly V[], send: (value: V) => Promise<Answer>): Promise<Answer[]> => {
  const answers: Answer[] = [];
  for (const value of values) {
    const answer = await send(value);
    answers.push(answer);
    if (!isMalformed(answer)) break;
  }
  return answers;
};

type Tried = { name: string; answers: Answer[] };

/** Sends the call without and with all parameters, then with one at a time if the two answers leave doubt. */
const poiCalls = (context: Context) =>
  context.once("optional parameters of a place", async () => {
    const bare = await askPoi(context, {});
    const full = await askPoi(context, firstOfEach(OPTIONAL) as Parameters);
    const tried: Tried[] = [];
    const inDoubt = isMalformed(bare) ? !isPoiServed(full) : isMalformed(full) && isPoiServed(bare);
    for (const [name, values] of inDoubt ? Object.entries(OPTIONAL) : []) {
      const answers = await untilTaken(values, (value) => askPoi(context, { [name]: value }));
      tried.push({ name, answers });
      if (isMalformed(bare) && answers.some(isPoiServed)) break;
    }
    return { bare, full, tried, never: tried.filter(({ answers }) => answers.every(isMalformed)) };
  });

/** The answer to an unknown parameter, if worded like that to `name` and unlike a malformed value's; else `null`. */
const saysUnknown = async (context: Context, { name, answers: [first] }: Tried): Promise<Answer | null> => {
  const value = OPTIONAL[name]?.[0] as string;
  const unlisted = await askPoi(context, { [UNLISTED]: value });
  const malformed = await askPoi(context, {}, { ...REQUIRED, lat: "north" });
  if (!isMalformed(unlisted) || !isMalformed(malformed)) return null;
  const said = reasonIn(first as Answer, name, value);
  const isSame = said === reasonIn(unlisted, UNLISTED, value) && said !== reasonIn(malformed, "lat", "north");
  return isSame ? unlisted : null;
};

const OF_THE_QUERY = "the types of the query are not shown in the specification";

const LAT_LON = { lat: 52.52, lon: 13.37 };
const ANY_PLACE = {
  ...{ center: [13.37, 52.52], coords: LAT_LON, position: LAT_LON, ...LAT_LON, lng: 13.37, latitude: 52.52 },
  ...{ longitude: 13.37, zoom: 14, accuracy: 10, name: "Harbour", label: "Harbour", address: "Harbour 1" },
  ...{ city: "Berlin", country: "DE", type: "Point", coordinates: [13.37, 52.52] },
};
/** Likely values of each field; the first ones are sent together. `null` is last: it may mean an absent field. */
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  location: [
    ...[LAT_LON, { lat: 52.52, lng: 13.37 }, { latitude: 52.52, longitude: 13.37 }, ANY_PLACE, [13.37, 52.52]],
    ...[{ type: "Point", coordinates: [13.37, 52.52] }, "52.52,13.37", "Berlin", {}, 7, null],
  ],
  map_zoom: [14, 14.5, "14", 3, { zoom: 14, level: 14, value: 14 }, [14], null],
  lang: ["en", "en-US", "de", "EN", ["en"], { code: "en" }, null],
  session_id: [
    ...["6f1d2c3b-4a59-4e68-8f70-1a2b3c4d5e6f", "floodgate", "6f1d2c3b4a594e688f701a2b3c4d5e6f"],
    ...["01J9Z3K4M5N6P7Q8R9S0T1V2W3", 7, {}, [], null],
  ],
  auto_actions: [true, [], {}, "auto", "on", "all", "none", "always", 1, ["zoom"], { enabled: true }, null],
  app_snapshot: [{}],
};

const askControl = (context: Context, more: Readonly<Record<string, unknown>>): Promise<Answer> => {
  const messages = [{ role: "user", content: "Where is the harbour?" }];
  const names = Object.keys(more);
  const of = names.length === 1 ? JSON.stringify(more) : names.join(", ");
  const what = names.length === 0 ? "messages alone" : `messages and ${of}`;
  return ask(context, "chat.control", { what, body: json({ messages, ...more }), open: true });
};

const sessionIds = async (context: Context): Promise<unknown[]> => {
  const sent = (await specimens(context)).flatMap(({ sse }) => sse.frames.map(({ json: data }) => data));
  return sent.flatMap((data) => (data as { session_id?: unknown } | null | undefined)?.session_id ?? []).slice(0, 1);
};

/** Members of a refusal that repeat the input. */
const REPEATED = new Set(["input", "value", "received"]);

const controlReason = ({ fields: { detail, error, errors } }: Answer, value: unknown): string => {
  const text = JSON.stringify([detail, error, errors], (name, inner) => (REPEATED.has(name) ? "..." : inner));
  return typeof value === "string" ? text.replaceAll(JSON.stringify(value), '"..."') : text;
};

/** Counts what was served; notes a refusal for another reason than its body. */
const lookAt = (checks: Checks, answers: readonly Answer[], isServed: (answer: Answer) => boolean): void => {
  for (const answer of checks.setAsideUnclear(answers)) {
    if (isServed(answer)) checks.fine();
    else if (!isMalformed(answer)) checks.note(`${answer.testCall.what}: ${inWords(answer)}`);
  }
};

const judgeEachField = async (context: Context, checks: Checks, bare: Answer): Promise<void> => {
  for (const [name, usual] of Object.entries(VALUES)) {
    const values = [...usual, ...(name === "session_id" ? await sessionIds(context) : [])];
    const answers = await untilTaken(values, (value) => askControl(context, { [name]: value }));
    const last = answers.at(-1) as Answer;
    checks.isUnclear(last);
    if (!isMalformed(last)) continue;
    const reasons = new Set(answers.map((answer, i) => controlReason(answer, values[i])));
    const tries = answers.length;
    const got = `${bare.outcome} for messages alone, and ${inWords(last)} with ${name}, whatever stands in it (${tries} tries)`;
    // The content of a snapshot cannot be guessed.
    if (reasons.size !== 1 || tries === 1) checks.note(`${name}: ${inWords(last)}, its type is not shown`);
    else checks.breach(`the optional field ${name} to be taken`, got, [bare, last]);
  }
};

const MAP_IDS = [
  ...["floodgate-verify", "3f2b8c1e-5d64-4a7b-9c1d-2e6f8a9b0c1d", "map_9f8e7d6c"],
  ...["507f1f77bcf86cd799439011", "12345"],
] as const;

const withMember = (context: Context, member: object, what: string): Promise<Answer> =>
  context.send(mint("publishable", "chat", { body: json({ product: "chat", ...member }), what, open: true }));

const firstMapId = (context: Context): Promise<Answer> =>
  context.once("map_id", () => withMember(context, { map_id: MAP_IDS[0] }, "a body with a map_id"));

const ofMapId = { needs: { roles: ["publishable"] }, cost: { calls: 1, shared: "map_id" } } as const;
const ofPoi = { cost: { calls: 2, shared: "optional parameters" } };

export const OPTIONAL_MEMBER_RULES: readonly Rule[] = [
  should("exchange-takes-map-id", [66, 89], {
    title: "the exchange takes the optional map_id",
    expected: "200 or 201",
    ...ofMapId,
    step: async (context, checks) => void checks.admits(await firstMapId(context)),
  }),
  // No breach: a deployment that refuses any unknown member, or refuses `map_id` in other words than broken JSON.
  must("map-id-is-not-malformed", [66, 67, 89], {
    title:
      "an exchange that accepts unknown members never answers a text as map_id with the refusal of a malformed body",
    expected: "map_id to be taken, whatever text it is",
    ...ofMapId,
    step: async (context, checks) => {
      const first = await firstMapId(context);
      checks.isUnclear(first);
      if (isAdmitted(first)) checks.fine();
      if (!isMalformed(first) || isSessionsOff(first)) return `map_id: ${inWords(first)}`;
      const unknown = await withMember(context, { floodgate_verify: "7" }, "a body with a member that nobody knows");
      const noJson = { body: body('{"product": "chat", ', "malformed"), what: "broken JSON", open: true } as const;
      const broken = await context.send(mint("publishable", "chat", noJson));
      if (!isAdmitted(unknown)) return "members that nobody knows are refused as well: a variant without it";
      if (wordingOf(first) !== wordingOf(broken)) return `what map_id does is not shown: ${inWords(first)}`;
      const others = await untilTaken(MAP_IDS.slice(1), (map_id) =>
        withMember(context, { map_id }, `a body with the map_id ${map_id}`),
      );
      checks.setAsideUnclear(others);
      if (!others.every(isMalformed)) return `not every text is taken as map_id: ${inWords(first)}`;
      const got = `${inWords(first)} for every text tried as map_id, and ${unknown.outcome} for a member that nobody knows`;
      checks.breach("map_id to be taken", got, [unknown, first], [ANY_SUCCESS]);
    },
  }),
  must("poi-optional-parameters", [99], {
    title: "a place is enriched with and without the optional parameters of the query",
    ...ofPoi,
    step: async (context, checks) => {
      const { bare, full, tried, never } = await poiCalls(context);
      lookAt(checks, [bare, full], isPoiServed);
      if (isMalformed(bare)) {
        const served = [full, ...tried.flatMap(({ answers }) => answers)].find(isPoiServed);
        if (served === undefined) checks.note("refused with and without: the types of the query are not shown");
        else {
          const got = `${inWords(bare)} for the required parameters alone, and ${served.outcome} for ${served.testCall.what}`;
          checks.breach("none of the optional parameters to be needed", got, [served, bare], [ANY_SUCCESS]);
        }
        return OF_THE_QUERY;
      }
      checks.setAsideUnclear(tried.flatMap(({ answers }) => answers));
      const notTaken = (name: string, { answers }: Tried, more: Answer[] = []): void => {
        const first = answers[0] as Answer;
        const got = `${bare.outcome} for the required parameters alone, and ${inWords(first)} with ${name}`;
        checks.breach(`${name} to be taken`, got, [bare, ...more, first]);
      };
      const [one] = never;
      if (one !== undefined && never.length === tried.length) {
        notTaken(`any of ${Object.keys(OPTIONAL).join(", ")}`, one);
        return OF_THE_QUERY;
      }
      for (const other of never) {
        // Language codes are known; values of the others are not specified.
        if (other.name === "lang") {
          notTaken(`lang as any of ${OPTIONAL.lang?.join(", ")}`, other);
          continue;
        }
        const unlisted = await saysUnknown(context, other);
        if (unlisted !== null) notTaken(`${other.name}, as with a parameter that is not listed`, other, [unlisted]);
      }
      if (tried.length > 0) checks.note(`not every value of an optional parameter is taken: ${inWords(full)}`);
      return OF_THE_QUERY;
    },
  }),
  should("poi-takes-each-parameter", [99], {
    title: "each optional parameter of a place is taken with one of the values that anybody would try",
    ...ofPoi,
    step: async (context, checks) => {
      const { bare, full, tried, never } = await poiCalls(context);
      if (isPoiServed(full)) checks.fine();
      if (!isPoiServed(bare)) return OF_THE_QUERY;
      for (const { answers } of tried) if (answers.some(isPoiServed)) checks.fine();
      // `poi-optional-parameters` reports `lang`, and the case that no parameter is taken.
      const rest = never.length === tried.length ? [] : never.filter(({ name }) => name !== "lang");
      for (const { name, answers } of rest) {
        const got = `${inWords(answers[0] as Answer)}, with ${OPTIONAL[name]?.join(", ")} alike`;
        checks.breach(`${name} to be taken`, got, [bare, ...answers]);
      }
      return OF_THE_QUERY;
    },
  }),
  must("summary-takes-both-types", [93], {
    title: "a summary is streamed of a poi and of a building alike",
    cost: { calls: 2, shared: "summaries" },
    step: async (context, checks) => {
      const answers = await summariesOfEitherType(context);
      for (const answer of answers) if (isAdmitted(answer)) checks.fine();
      const at = answers.findIndex(isMalformed);
      const [type, other] = [TYPES[at], TYPES[1 - at]];
      if (type === undefined || other === undefined) return;
      const again = (of: AnyType) => ask(context, "chat.summary", { ...summary(of, ANY_SUMMARY), open: true });
      const [taken, refused, unknown] = [await again(other), await again(type), await again(NO_TYPE)];
      for (const { transient, outcome } of [taken, refused, unknown]) if (transient) checks.unclear(outcome);
      if (!isAdmitted(taken)) checks.note("refused for either type: the other fields are not shown");
      else if (isAdmitted(refused)) checks.note(`type ${type} needs more fields`);
      else if (isMalformed(refused) && isMalformed(unknown)) {
        const got = `type ${other}: ${taken.outcome}; type ${type}: ${inWords(refused)}, as for a type that does not exist`;
        if (reasonIn(refused, type) !== reasonIn(unknown, NO_TYPE))
          checks.note(`type ${type}: ${inWords(refused)}, the other fields are not shown`);
        else checks.breach(`type ${type} to be taken`, got, [taken, refused], [ANY_SUCCESS]);
      }
      return "refused for either type: the other fields are not shown in the specification";
    },
  }),
  must("control-optional-fields", [90, 102], {
    title: "the control stream is served with and without its optional fields",
    cost: { calls: 2 },
    step: async (context, checks) => {
      const bare = await askControl(context, {});
      const full = await askControl(context, firstOfEach(VALUES));
      lookAt(checks, [bare, full], isAdmitted);
      if (isMalformed(bare) && isAdmitted(full)) {
        const got = `${inWords(bare)} for messages alone, and ${full.outcome} for ${full.testCall.what}`;
        checks.breach("none of the optional fields to be needed", got, [full, bare], [ANY_SUCCESS]);
      } else if (isMalformed(full) && isAdmitted(bare)) {
        checks.note("not all of the likeliest values are taken");
        await judgeEachField(context, checks, bare);
      } else if (isMalformed(bare)) checks.note(`refused with and without: ${inWords(bare)}`);
      return "the types of the fields are not shown in the specification";
    },
  }),
  must("analysis-prompt-is-optional", [112], {
    title: "a dataset is analysed with and without a prompt",
    cost: { calls: 1, analyses: 1, shared: "analyses" },
    step: async (context, checks) => {
      const answers = await analyses(context);
      if (answers.length === 0) context.budget.require("analyses", 1);
      for (const answer of checks.setAsideUnclear(answers)) {
        if (isAdmitted(answer)) checks.fine();
        else if (answers.some(isAdmitted) && isMalformed(answer))
          checks.require(false, answer, "2xx, as the same dataset gets otherwise", "it was refused");
      }
      return `the dataset was refused: ${answers.map(inWords).join("; ")}`;
    },
  }),
];
