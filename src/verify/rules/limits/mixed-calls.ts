/**
 * Calls put together by chance from every role, origin, route and header (items 68-81, 145-156): the tables of the other
 * rules cover what somebody thought of. What fits is worked out by the order of checks as the judges of a history know
 * it (invariants/evidence/legal-answers.ts), every reading allowed. The seed of the run decides, so a replay makes the same calls.
 */
import { countedAs, outcomeOf } from "../../../contract/refusals.ts";
import { PRODUCT_SCOPE, type Product, type RouteName } from "../../../contract/routes.ts";
import { legalAnswers } from "../../../invariants/evidence/legal-answers.ts";
import type { KeyRole } from "../../../target/target.ts";
import { pick, whole } from "../../../workload/random.ts";
import type { CredentialRef, OriginRef } from "../../../workload/step.ts";
import { Checks, callInWords, isSessionsOff } from "../../checks.ts";
import { type Context, scopeOf } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { RUNTIME_ROUTES } from "../../runtime-routes.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { FORMS, role, type TestCall } from "../../sending/test-call.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");
const CALLS = 90;

const PUBLISHABLE: readonly KeyRole[] = [
  ...(["publishable", "publishable_other_org", "publishable_no_ai", "publishable_tile_only"] as const),
  ...(["publishable_downgraded", "publishable_exhausted", "publishable_hard_stop", "publishable_basemap"] as const),
];
const SERVER: readonly KeyRole[] = ["server", "server_no_design", "server_foreign_ip", "server_downgraded"];
/** Roles whose sessions are there to be had without a map load, and for what. */
const SESSIONS: readonly { of: KeyRole; product: Product }[] = [
  { of: "publishable", product: "chat" },
  { of: "publishable", product: "editor" },
  { of: "publishable_no_ai", product: "editor" },
  { of: "publishable_other_org", product: "chat" },
];
const ORIGINS: readonly OriginRef[] = ["listed", "none", "foreign"];

/** Not the metered one: what comes by chance must not be charged. */
const ROUTES = RUNTIME_ROUTES.filter((route) => route !== "design.analyze");
const BODY_NOT_SHOWN: ReadonlySet<RouteName | "-"> = new Set([
  ...(["chat.summary", "chat.button", "chat.route", "poi.enrich", "design.apply"] as const),
]);

const credentialsOf = (context: Context): CredentialRef[] => [
  { as: "none" },
  { as: "garbage" },
  { as: "unknown" },
  ...PUBLISHABLE.filter(context.has).map((name): CredentialRef => ({ as: "publishable", of: role(name) })),
  ...SERVER.filter(context.has).map((name): CredentialRef => ({ as: "server", of: role(name) })),
  ...SESSIONS.filter(({ of }) => context.has(of)).map(
    ({ of, product }): CredentialRef => ({ as: "session", of: role(of), product }),
  ),
];

const scopeFor = ({ product }: { product: Product }): string | null => PRODUCT_SCOPE[product];

/** The i-th call of a seed. */
const testCallOf = (
  context: Context,
  credentials: readonly CredentialRef[],
  forms: readonly TestCall["form"][],
  i: number,
): TestCall => {
  const { seed } = context;
  const credential = pick(seed, i, 1, credentials);
  const origin = pick(seed, i, 2, ORIGINS);
  if (whole(seed, i, 3, 5) < 2) {
    const product = pick(seed, i, 4, ["chat", "editor", "viewer"] as const);
    return { route: "sdk.sessions", credential, origin, product, form: pick(seed, i, 5, forms) as "bearer" };
  }
  // Whether a session opens the routes of another scope is A16, and another rule's.
  const routes =
    credential.as === "session" ? ROUTES.filter((route) => scopeOf(route) === scopeFor(credential)) : ROUTES;
  return { route: pick(seed, i, 4, routes), credential, origin, form: pick(seed, i, 5, FORMS) };
};

/** A4: a session token where a key belongs may be no credential at all there. */
const isNoKey = ({ testCall, outcome }: Answer): boolean =>
  testCall.route === "sdk.sessions" && testCall.credential.as === "session" && outcome === UNAUTHENTICATED;

/** A7: what a viewer without a key is answered, whoever admits it, is the deployment's affair. */
const isAnonymousViewer = ({ testCall }: Answer): boolean =>
  testCall.route === "sdk.sessions" && testCall.product === "viewer" && testCall.credential.as === "none";

/** The order of checks is stated for the exchange only; at runtime a later one that fails as well may decide (5.2-5.6). */
const isLaterCheck = ({ testCall, line, outcome, status }: Answer): boolean => {
  const { facts } = line;
  if (facts === undefined || testCall.route === "sdk.sessions" || status !== 403) return false;
  const past = facts.credential === "session" ? "session" : "server";
  const settled = { ...facts, credential: past, origin: past === "session" ? "listed" : "none" } as const;
  return legalAnswers({ ...line, facts: settled }, { ours: false, stateUnsettled: false })?.has(outcome) === true;
};

const isOpen = ({ testCall, outcome, status }: Answer): boolean =>
  BODY_NOT_SHOWN.has(testCall.route) &&
  (outcome === "422 malformed_body" || (testCall.route === "poi.enrich" && status === 404));

const judge = (checks: Checks, answer: Answer): void => {
  const legal = legalAnswers(answer.line, { ours: false, stateUnsettled: false });
  if (legal === null || isSessionsOff(answer) || isAnonymousViewer(answer)) return;
  const outcome = countedAs(answer.outcome);
  if (legal.has(outcome) || (legal.has("200") && isAdmitted(answer)) || isOpen(answer) || isNoKey(answer)) {
    if (answer.transient) checks.unclear(inWords(answer));
    else checks.fine();
  } else if (isLaterCheck(answer)) {
    checks.fine();
    checks.note(`${answer.outcome} decides at runtime before ${[...legal].find((one) => /^40[13]/.test(one))}`);
  } else if (answer.transient) checks.unclear(inWords(answer));
  else {
    const accepts = [...legal];
    checks.breach({ expected: accepts.join(" or "), got: callInWords(answer), steps: [answer], accepts });
  }
};

/** So many calls of the run's seed, from the `first` on. */
const drawn = async (context: Context, first: number, length: number): Promise<TestCall[]> => {
  const credentials = credentialsOf(context);
  const forms = await context.exchangeForms();
  return Array.from({ length }, (_, i) => testCallOf(context, credentials, forms, first + i));
};

const mixed: Rule = {
  id: "mixed-calls",
  level: "must",
  spec: [68, 69, 70, 71, 72, 74, 81, 145, 147, 149, 151, 153, 156],
  title: "any call is answered by a check that it fails, and admitted only when it fails none",
  phase: "order",
  needs: {},
  cost: { calls: 90 },
  run: async (context) => {
    const checks = new Checks("an answer that the specification allows this call");
    await context.each(await drawn(context, 0, CALLS), async (testCall) => judge(checks, await context.send(testCall)));
    return checks.result();
  },
};

/** As many as a browser opens at once: a map that starts does so, and nobody calls it load. */
const TOGETHER = 8;
const ROUNDS = 4;

/** Who is who gets lost where a server keeps the caller of one call while it waits for something in another. */
const simultaneous: Rule = {
  id: "simultaneous-calls-keep-apart",
  level: "must",
  spec: [2, 46, 69, 153, 156],
  title: "calls of different callers at the same moment are each answered as their own",
  phase: "order",
  needs: {},
  cost: { calls: 32 },
  run: async (context) => {
    const checks = new Checks("an answer that the specification allows this call");
    // Before, so that it is no part of what happens at once.
    for (const { of, product } of SESSIONS) if (context.has(of)) await context.mint(of, product);
    const together = Math.min(TOGETHER, context.target.permits?.load_max_rps ?? TOGETHER);
    for (let round = 0; round < ROUNDS; round++) {
      // Others than those that came one by one.
      const first = CALLS + round * together;
      const testCalls = await drawn(context, first, together);
      const answers = await Promise.all(testCalls.map((testCall) => context.send({ ...testCall, atOnce: true })));
      for (const answer of answers) judge(checks, answer);
    }
    return checks.result();
  },
};

export const MIXED_RULES: readonly Rule[] = [mixed, simultaneous];
