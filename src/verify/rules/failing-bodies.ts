/** Malformed bodies in calls that are otherwise right (items 64-65, 88-112, 202-203; A2), and routes not to be found. */

import { shapeOf, shapeOfBody } from "../../contract/foreign-text.ts";
import { isObject } from "../../contract/refusals.ts";
import type { RouteName } from "../../contract/routes.ts";
import { type Context, callerOf, scopeOf } from "../context.ts";
import { all, type Row, type Rule, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted, wordingOf } from "../sending/answer.ts";
import { body, json, mint, type TestCall } from "../sending/test-call.ts";

const { must, should, info } = rulesOf("bodies", { needs: { anyOf: ["publishable", "server"] } });
const PUBLISHABLE = { roles: ["publishable"] } as const;

/** Rows of calls by each caller of the route in turn, or all by the first. */
const rowsOf = (context: Context, calls: readonly Wrong[], inTurn: boolean): Row[] =>
  calls.map(([route, more], i) => [
    { route, ...callerOf(context, scopeOf(route), inTurn ? i : 0), ...more },
    "malformed_body",
  ]);

type Wrong = readonly [RouteName, Partial<TestCall>];
const broken = (route: RouteName, what: string, text: string): Wrong => [
  route,
  { body: body(text, "malformed"), what: `${route} with ${what}` },
];

/** Bodies that are certainly wrong: those that contradict the specification, and broken JSON. */
const STATED = [
  ...(["chat.control", "chat.summary", "chat.button", "design.apply", "chat.route"] as const).map((route) =>
    broken(route, "broken JSON", '{"messages": ['),
  ),
  broken("chat.control", "a body without messages", JSON.stringify({ lang: "en" })),
  broken("chat.control", "messages that are a text", JSON.stringify({ messages: "hello" })),
];

const INCOMPLETE = [
  ["chat.control", { body: json({ messages: [{ role: "user" }] }, "malformed"), what: "a message without content" }],
  ["chat.control", { body: json({ messages: [{ role: "user", content: 7 }] }, "malformed"), what: "content 7" }],
  ["chat.summary", { body: json({ type: "floodgate-no-such-type" }, "malformed") }],
  ["chat.route", { body: json({ profile: "walking" }, "malformed") }],
  ["poi.enrich", { path: "/retrieval/poi/enrich?lat=52.5&lon=13.4", facts: { body: "malformed" } }],
] as const;

const WRONG_PRODUCTS: readonly (readonly [what: string, body: unknown])[] = [
  ["a body without a product", {}],
  ["a product that does not exist", { product: "floodgate-no-such-product" }],
  ["a product that is a number", { product: 7 }],
  ["a product that is null", { product: null }],
  ["a product that is a list", { product: ["chat"] }],
  ["a body that is a list", ["chat"]],
];

const wrongProducts = (context: Context): Promise<Answer[]> =>
  context.once("wrong products", () =>
    context.each(WRONG_PRODUCTS, ([what, value]) =>
      context.send(mint("publishable", "chat", { body: json(value, "malformed"), what, open: true })),
    ),
  );
const ofProducts = { needs: PUBLISHABLE, cost: { calls: WRONG_PRODUCTS.length, shared: "wrong products" } };

/** A deployment that admits this call may meter it, so the rule runs before the analyses made on purpose. */
export const ANALYSIS_NEEDS_A_DATASET = rulesOf("lattice").must("analysis-needs-a-dataset", [112, 202], {
  title: "an analysis without a dataset is answered 422",
  needs: { anyOf: ["publishable", "server"], spends: { analyses: 1 } },
  cost: { calls: 1 },
  rows: (context) => {
    const prompt = json({ prompt: "Show where most people live" }, "malformed");
    return rowsOf(context, [["design.analyze", { body: prompt, what: "design.analyze without a dataset" }]], false);
  },
});

// biome-ignore format: a table, a rule in a few lines
export const MALFORMED_RULES: readonly Rule[] = [
  must("malformed-exchange-body", [64, 65, 202], {
    title: "the exchange answers a body that is no JSON with 422",
    rows: all([["broken JSON", '{"product": "chat", '], ["a form", "product=chat"]].map(([what = "", text = ""]) =>
      mint("publishable", "chat", { body: body(text, "malformed"), what })), "malformed_body") }),
  must("wrong-product-is-refused", [65, 88], {
    title: "the exchange mints nothing for a product that is missing or none of the four", expected: "a refusal", ...ofProducts,
    step: async (context, checks) => {
      for (const answer of checks.setAsideUnclear(await wrongProducts(context)))
        checks.require(/^4\d\d$/.test(`${answer.status}`), answer, "a refusal: 4xx", inWords(answer));
    } }),
  // The words of the refusal are not specified.
  info("wrong-product-is-422", [88], {
    title: "whether the exchange answers a missing or unknown product with 422", expected: "422 malformed_body", ...ofProducts,
    step: async (context, checks) => {
      for (const answer of await wrongProducts(context)) checks.expect(answer, "malformed_body");
    } }),
  must("malformed-runtime-body", [90, 91, 111, 202], {
    title: "a runtime route answers a malformed body with 422, streams included",
    cost: { calls: STATED.length }, rows: (context) => rowsOf(context, STATED, true) }),
  should("incomplete-requests", [91, 93, 96, 99, 104, 109], {
    title: "a request that lacks a stated field, or has it of another type, is answered 422",
    cost: { calls: INCOMPLETE.length },
    step: async (context, checks) => {
      await context.each(rowsOf(context, INCOMPLETE, false), async ([call, wanted]) => {
        const answer = await context.send({ ...call, open: true });
        // Item 202 speaks of bodies, and a query is none.
        const isQuery = call.route === "poi.enrich" && answer.status === 400;
        if (isQuery) checks.note(`poi.enrich: ${inWords(answer)}`);
        else checks.expect(answer, wanted);
      });
    } }),
];

/** Routes that cannot be found (A11). Doubtful answers are compared with one for a route between like places. */
const ofRoutes = { cost: { calls: 3, shared: "routes" } };

const STATION = { name: "Station", lat: 52.52, lon: 13.36 };
const MARKET = { name: "Market", lat: 52.5, lon: 13.4 };
const FOUND = { places: [STATION, MARKET], profile: "walking", raw_query: "from the station to the market" };
const PACIFIC = { name: "Pacific", lat: -48.8767, lon: -123.3933 };
const OCEANS = [PACIFIC, { name: "Atlantic", lat: 0.01, lon: -30.01 }];

const STRANGE = { ...FOUND, profile: "floodgate-no-such-profile" };

/** `known`: only the number or position of places differs from a findable route. Another body may be malformed. */
const FAILING: readonly { what: string; value: unknown; known: boolean }[] = [
  { what: "a route with one place", value: { ...FOUND, places: [STATION] }, known: true },
  { what: "a route by a profile that nobody knows", value: STRANGE, known: false },
  { what: "a route between two places in two oceans", value: { ...FOUND, places: OCEANS }, known: true },
];

const ask = (context: Context, what: string, text: string, is: "ok" | "malformed" = "ok"): Promise<Answer> =>
  context.send({ route: "chat.route", ...callerOf(context, "ai"), body: body(text, is), what, open: true });

const askedFor = (context: Context) =>
  context.once("routes that cannot be found", () =>
    context.each(FAILING, async ({ what, value, known }) => {
      return { what, known, answer: await ask(context, what, JSON.stringify(value)) };
    }),
  );

const foundBy = (context: Context): Promise<Answer | undefined> =>
  context.once("a route that is found", async () => {
    const answer = await ask(context, "a route between two places", JSON.stringify(FOUND));
    const isFound = isAdmitted(answer) && answer.body !== undefined && (answer.fields.error ?? null) === null;
    return isFound ? answer : undefined;
  });

/** Whether the status reports a failed route; a 422 does so only in the flat envelope of a route failure. */
const isFailureByStatus = ({ status, envelope }: Answer): boolean =>
  status === 422 ? envelope === "flat" : status !== null && status >= 400;

/** Whether a 422 is worded like that to broken JSON; `null` unless two places of the same shape are served. */
const doubtAt422 = async (context: Context, known: boolean, answer: Answer) => {
  const found = known && answer.status === 422 ? await foundBy(context) : undefined;
  if (found === undefined) return null;
  const broken = await context.once("a route's broken body", () =>
    ask(context, "chat.route with broken JSON", '{"places": [', "malformed"),
  );
  const isMalformed = !broken.transient && broken.status === 422;
  return { found, calledMalformed: isMalformed && wordingOf(broken) === wordingOf(answer) };
};

const isHollow = (value: unknown): boolean => {
  if (value === null || value === "") return true;
  if (Array.isArray(value)) return value.every(isHollow);
  return isObject(value) && Object.values(value).every(isHollow);
};
const substanceIn = (value: unknown): number =>
  isObject(value) ? Object.values(value).filter((one) => typeof one === "object" && !isHollow(one)).length : 0;

const saysLess = (value: unknown, found: unknown): boolean => {
  if (isHollow(value)) return !isHollow(found);
  return isObject(value) && substanceIn(value) === 0 && (Array.isArray(found) || substanceIn(found) > 0);
};

const EXPECTED = "200 with an `error` text";
const FAILED = ["200", "200 error"];

export const ROUTE_FAILURE_RULES: readonly Rule[] = [
  must("route-failures-are-200", [97, 98, 186], {
    title: "a route that cannot be found is reported as 200 with an error text, not as 4xx",
    ...ofRoutes,
    step: async (context, checks) => {
      let failures = 0;
      const breach = (got: string, ...steps: Answer[]): void => checks.breach(EXPECTED, got, steps, FAILED);
      for (const { what, known, answer } of await askedFor(context)) {
        if (checks.isUnclear(answer)) continue;
        if (answer.outcome === "200 error") {
          failures += 1;
          const { error } = answer.fields;
          const isText = typeof error === "string" && error !== "";
          if (error === null) checks.note(`${what}: error is null, which reports no failure (item 106)`);
          else checks.require(isText, answer, "a non-empty text under `error`", `it was ${shapeOf(error)}`);
        } else if (isAdmitted(answer)) {
          if (!checks.require(answer.body !== undefined, answer, "a JSON body", "it was not JSON")) continue;
          // `detail` is the envelope of a refusal, here under the status of a success.
          const { detail, ...rest } = answer.fields;
          const found = typeof detail === "string" ? await foundBy(context) : undefined;
          if (found !== undefined && !("detail" in found.fields) && saysLess(rest, found.body))
            checks.breach(EXPECTED, `${what}: 200 with ${shapeOfBody(answer.text, answer.body)}`, [found, answer]);
        } else if (isFailureByStatus(answer)) breach(`${what}: ${inWords(answer)}`, answer);
        else {
          const doubt = await doubtAt422(context, known, answer);
          if (doubt === null || doubt.calledMalformed) checks.note(`${what}: ${inWords(answer)}`);
          else breach(`${what}: ${inWords(answer)}, where two places of that shape are served`, doubt.found, answer);
        }
      }
      if (failures === 0) checks.note("no route failed");
      return "every body was refused as malformed: the places of a route are not shown in the specification";
    },
  }),
  // Item 97 says "not 4xx"; which calls are failures and which malformed is not specified (item 108).
  should("route-failures-are-reported", [97, 98, 106, 108, 202], {
    title: "a route that cannot be found is neither called malformed nor answered with nothing",
    ...ofRoutes,
    expected: "200 with an `error` text, or a route",
    step: async (context, checks) => {
      for (const { what, known, answer } of await askedFor(context)) {
        if (checks.isUnclear(answer)) continue;
        const doubt = await doubtAt422(context, known, answer);
        if (doubt?.calledMalformed === true) {
          const got = `${what}: ${inWords(answer)}, as for broken JSON, where two places of that shape are served`;
          checks.breach(EXPECTED, got, [doubt.found, answer], FAILED);
        }
        if (!isAdmitted(answer) || answer.body === undefined) continue;
        const isBare = answer.fields.error === undefined && answer.fields.detail === undefined;
        const isThin = isHollow(answer.body) || Object.values(answer.fields).some(isHollow);
        const found = isBare && isThin ? await foundBy(context) : undefined;
        const less = found !== undefined && saysLess(answer.body, found.body);
        checks.require(!less, answer, "an `error` text, or a route", `it was ${shapeOfBody(answer.text, answer.body)}`);
      }
      return "no route was served";
    },
  }),
];
