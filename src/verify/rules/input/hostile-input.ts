/**
 * What nobody well-meaning sends (items 58, 109, 202, 223): the specification shows no limits of size or depth and no types of
 * most fields, so whether such a call is admitted is the deployment's affair. A server error is not, on any of them.
 */
import { Checks } from "../../checks.ts";
import { type Context, callersOf, scopeOf } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords } from "../../sending/answer.ts";
import { answerTo, isSilent } from "../../sending/sent-once.ts";
import { exchangeCall, type TestCall } from "../../sending/test-call.ts";
import { oddBodies, oddTexts } from "./hostile-bodies.ts";
import { oddHeads } from "./hostile-heads.ts";
import { oddQueries, oddTiles } from "./hostile-queries.ts";
import { isMuch, ODD_ANALYSES, oddValues } from "./hostile-values.ts";
import { foreignLetters } from "./key-with-a-foreign-letter.ts";

const DEPTH = 3_000;
/** Below the 8 KiB that HTTP servers commonly take for one header. */
const LONG = 7_500;
/** A balancer's own words, and the key service's. */
const BETWEEN: ReadonlySet<number> = new Set([502, 503, 504]);

const deep = "[".repeat(DEPTH) + "]".repeat(DEPTH);
const body = (text: string): NonNullable<TestCall["body"]> => ({ text, is: "malformed" });

const PATHS: readonly (readonly [what: string, path: string])[] = [
  ["a path that is no UTF-8", "/design/styles%ff%fe"],
  ["a path with half an escape", "/design/%zz"],
  ["a path with a null character", "/design/%00"],
  ["a tile whose number is no UTF-8", "/maps/tiles/1/%ff/1"],
];

type Hostile = Partial<TestCall> & { what: string };

const BODIES: readonly Hostile[] = [
  { what: "a body that is null", body: body("null") },
  { what: "a body that is a number", body: body("7") },
  { what: "a body that is a text", body: body('"chat"') },
  { what: "an empty body", body: body("") },
  { what: "a body of nothing but nested lists", body: body(deep) },
];

const HEADS: readonly Hostile[] = [
  { what: "a very long Origin", originValue: `https://${"a".repeat(LONG)}.example`, origin: "foreign" },
  { what: "an Origin that is no URL", originValue: "not a url", origin: "foreign" },
  { what: "a very long X-Request-Id", headers: { "x-request-id": "r".repeat(LONG) } },
  { what: "a good body sent as text/plain", headers: { "content-type": "text/plain" } },
  { what: "a good body without a content type", headers: { "content-type": "" } },
  {
    what: "a good body said to be in another charset",
    headers: { "content-type": "application/json; charset=iso-8859-7" },
  },
  { what: "a content type that is none", headers: { "content-type": "nonsense;;=" } },
  { what: "an Accept that is none", headers: { accept: "nonsense" } },
];

const longKey = (prefix: string): Hostile => ({
  what: `a key of ${LONG} characters`,
  credential: { as: "unknown" },
  secret: { value: prefix + "a".repeat(LONG), variable: "$LONG_KEY" },
});

const testCallsOf = (context: Context): TestCall[] => {
  const testCalls: TestCall[] = [];
  if (context.has("publishable")) {
    const unknownField = body(`{"product": "chat", "floodgate": ${deep}}`);
    for (const hostile of [
      ...BODIES,
      ...oddBodies("exchange"),
      ...HEADS,
      { what: "a known product beside a deeply nested field", body: unknownField },
      longKey("svc_pk_live_"),
    ]) {
      testCalls.push({ ...exchangeCall("publishable", "listed", "chat"), ...hostile });
    }
  }
  const ai = callersOf(context, "ai")[0];
  const design = callersOf(context, "design")[0];
  if (ai !== undefined)
    for (const odd of oddBodies("control")) testCalls.push({ route: "chat.control", ...ai, ...odd });
  for (const hostile of BODIES) {
    if (ai !== undefined) testCalls.push({ route: "chat.control", ...ai, ...hostile });
    if (design !== undefined) testCalls.push({ route: "design.apply", ...design, ...hostile });
  }
  for (const what of ["/design/styles", "/sdk/sessions"]) {
    const head = { route: "-", path: what, method: "HEAD", what: `HEAD ${what}` } as const;
    testCalls.push({ ...head, credential: { as: "none" }, origin: "none" });
    if (design !== undefined) testCalls.push({ ...head, ...design });
  }
  if (design !== undefined)
    testCalls.push({
      route: "design.styles",
      ...design,
      headers: { accept: "nonsense" },
      what: "an Accept that is none",
    });
  for (const [what, path] of PATHS) {
    testCalls.push({ route: "-", credential: { as: "none" }, origin: "none", path, what });
    if (design !== undefined) testCalls.push({ route: "-", ...design, path, what });
  }
  if (ai !== undefined) {
    for (const odd of oddQueries()) testCalls.push({ route: "poi.enrich", ...ai, ...odd });
    testCalls.push({ route: "poi.enrich", ...ai, ...longKey("svc_sk_live_") });
    testCalls.push({ route: "poi.enrich", ...ai, ...longKey("svc_sess_live_") });
  }
  for (const odd of oddValues()) {
    const caller = callersOf(context, scopeOf(odd.route))[0];
    if (caller !== undefined) testCalls.push({ ...caller, ...odd });
  }
  for (const odd of oddTexts()) {
    const caller = callersOf(context, scopeOf(odd.route))[0];
    if (odd.route === "sdk.sessions") {
      if (context.has("publishable")) testCalls.push({ ...exchangeCall("publishable", "listed", "chat"), ...odd });
    } else if (caller !== undefined) testCalls.push({ ...caller, ...odd });
  }
  testCalls.push(...oddHeads(context));
  return testCalls;
};

const hostileInput: Rule = {
  id: "hostile-input",
  level: "must",
  spec: [58, 202, 223, 232],
  title: "odd bodies, heads and queries are refused or served, never answered with a server error",
  phase: "bodies",
  needs: { anyOf: ["publishable", "server"] },
  cost: ({ tile_url }) => ({ calls: 154, analyses: 1, map_loads: tile_url === undefined ? 0 : 1 }),
  run: async (context) => {
    const checks = new Checks("no server error");
    const look = (answer: Answer): void => {
      const { status, testCall } = answer;
      if (answer.transient && isMuch(testCall.what)) checks.note(`${testCall.what}: ${inWords(answer)}`);
      else if (status === null && isSilent(answer)) checks.unclear(`${testCall.what}: ${inWords(answer)}`);
      // A connection that is closed on such a call is a refusal as well, if a rude one.
      else if (status === null) checks.note(`${testCall.what}: ${inWords(answer)}`);
      else if (answer.transient && BETWEEN.has(status)) checks.unclear(inWords(answer));
      // The one server error that the specification knows.
      else if (status === 503) checks.note(`${testCall.what}: 503`);
      else checks.require(status < 500, answer, "no server error", `it was ${status}`);
    };
    const judge = async (testCall: TestCall): Promise<void> => {
      const asked: TestCall = { ...testCall, open: true };
      look(isMuch(testCall.what) ? await context.send({ ...asked, once: true }) : await answerTo(context, asked));
    };
    await context.each([...testCallsOf(context), ...(await oddTiles(context))], judge);
    for (const answer of await foreignLetters(context)) look(answer);
    const analyst = callersOf(context, "design")[0];
    // Whoever admits one may charge it: one after the other, as long as the budget has any.
    for (const odd of analyst === undefined ? [] : ODD_ANALYSES) {
      if (context.budget.left("analyses") >= 1) await judge({ ...analyst, ...odd } as TestCall);
      else checks.note(`${odd.what}: not tried, budget.analyses is used up`);
    }
    return checks.result();
  },
};

export const HOSTILE_RULES: readonly Rule[] = [hostileInput];
