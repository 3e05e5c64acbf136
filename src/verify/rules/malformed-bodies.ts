/** Malformed bodies in calls that are otherwise right (items 64-65, 88-112, 202-203; A2). */
import type { RouteName } from "../../contract/routes.ts";
import { type Context, callerOf, scopeOf } from "../context.ts";
import { all, type Row, type Rule, rulesOf } from "../rule.ts";
import { type Answer, inWords } from "../sending/answer.ts";
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
  ["a product in capitals", { product: "CHAT" }],
  ["a product between spaces", { product: " chat " }],
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
      for (const answer of await wrongProducts(context)) {
        const refused = answer.status !== null && answer.status >= 400 && answer.status < 500;
        if (!checks.isUnclear(answer)) checks.require(refused, answer, "a refusal: 4xx", inWords(answer));
      }
    } }),
  // The words of the refusal are not specified.
  info("wrong-product-is-422", [88], {
    title: "whether the exchange answers a missing or unknown product with 422", expected: "422 malformed_body", ...ofProducts,
    step: async (context, checks) => {
      for (const answer of await wrongProducts(context)) checks.expect(answer, { accepts: ["422 malformed_body"] });
    } }),
  must("malformed-runtime-body", [90, 91, 111, 202], {
    title: "a runtime route answers a malformed body with 422, streams included",
    cost: { calls: STATED.length }, rows: (context) => rowsOf(context, STATED, true) }),
  should("incomplete-requests", [91, 93, 96, 99, 104, 109], {
    title: "a request that lacks a stated field, or has it of another type, is answered 422",
    cost: { calls: INCOMPLETE.length }, rows: (context) => rowsOf(context, INCOMPLETE, false) }),
];
