/** Calls drawn by the run's seed, for cases in no table; `invariants/evidence/legal-answers.ts` says what is legal. */
import { countedAs } from "../../contract/refusals.ts";
import { PRODUCT_SCOPE, type Product } from "../../contract/routes.ts";
import { legalAnswers } from "../../invariants/evidence/legal-answers.ts";
import type { KeyRole } from "../../target/roles.ts";
import { pick, whole } from "../../workload/random.ts";
import type { CredentialRef, OriginRef } from "../../workload/step.ts";
import { type Checks, callInWords, isSessionsOff, SESSIONS_OFF } from "../checks.ts";
import { type Context, RUNTIME_ROUTES, scopeOf } from "../context.ts";
import { type Rule, rulesOf } from "../rule.ts";
import { type Answer, isAdmitted, isTransient } from "../sending/answer.ts";
import { FORMS, inSession, mint, role, type TestCall } from "../sending/test-call.ts";

const { must } = rulesOf("order");
const CALLS = 90;
const TOGETHER = 8;
const ROUNDS = 4;

const PUBLISHABLE: readonly KeyRole[] = [
  ...(["publishable", "publishable_other_org", "publishable_no_ai", "publishable_tile_only"] as const),
  ...(["publishable_downgraded", "publishable_exhausted", "publishable_hard_stop", "publishable_basemap"] as const),
];
const SERVER: readonly KeyRole[] = ["server", "server_no_design", "server_foreign_ip", "server_downgraded"];
/** Sessions that cost no map load. */
// biome-ignore format: a row is a line
const SESSIONS: readonly (readonly [of: KeyRole, product: Product])[] = [
  ["publishable", "chat"], ["publishable", "editor"], ["publishable_no_ai", "editor"], ["publishable_other_org", "chat"],
];
/** Keys of several organizations, each of which mints a session at the moment of the other calls and uses it then. */
const MINT_BESIDE: readonly KeyRole[] = ["publishable", "publishable_other_org"];
const ORIGINS: readonly OriginRef[] = ["listed", "none", "foreign"];
const ROUTES = RUNTIME_ROUTES.filter((route) => route !== "design.analyze");

const credentialsOf = ({ has }: Context): CredentialRef[] => [
  ...(["none", "garbage", "unknown"] as const).map((as) => ({ as })),
  ...PUBLISHABLE.filter(has).map((name) => ({ as: "publishable", of: role(name) }) as const),
  ...SERVER.filter(has).map((name) => ({ as: "server", of: role(name) }) as const),
  ...SESSIONS.filter(([of]) => has(of)).map(([of, product]) => ({ as: "session", of: role(of), product }) as const),
];

const drawn = async (context: Context, first: number, length: number): Promise<TestCall[]> => {
  const { seed } = context;
  const credentials = credentialsOf(context);
  const forms = await context.exchangeForms();
  return Array.from({ length }, (_, k): TestCall => {
    const i = first + k;
    const credential = pick(seed, i, 1, credentials);
    const origin = pick(seed, i, 2, ORIGINS);
    if (whole(seed, i, 3, 5) < 2) {
      const product = pick(seed, i, 4, ["chat", "editor", "viewer"] as const);
      return { route: "sdk.sessions", credential, origin, product, form: pick(seed, i, 5, forms) };
    }
    // Another rule judges sessions on routes of another scope (A16).
    const scope = credential.as === "session" ? PRODUCT_SCOPE[credential.product] : null;
    const routes = ROUTES.filter((route) => scope === null || scopeOf(route) === scope);
    return { route: pick(seed, i, 4, routes), credential, origin, form: pick(seed, i, 5, FORMS) };
  });
};

const legalOf = (line: Answer["line"]) => legalAnswers(line, { ours: false, stateUnsettled: false });

/** The order of checks is specified for the exchange only; at runtime any failing check may decide (5.2-5.6). */
const isLaterCheck = ({ testCall, line, outcome, status }: Answer): boolean => {
  const { facts } = line;
  if (facts === undefined || testCall.route === "sdk.sessions" || status !== 403) return false;
  const past = facts.credential === "session" ? "session" : "server";
  const settled = { ...facts, credential: past, origin: past === "session" ? "listed" : "none" } as const;
  return legalOf({ ...line, facts: settled })?.has(outcome) === true;
};

const judge = (checks: Checks, answer: Answer): void => {
  const { route, product, credential } = answer.testCall;
  const legal = legalOf(answer.line);
  // A7: how a viewer without a key is answered is not specified.
  const isAnonymousViewer = route === "sdk.sessions" && product === "viewer" && credential.as === "none";
  if (legal === null || isSessionsOff(answer) || isAnonymousViewer) return;
  const isLegal = legal.has(countedAs(answer.outcome)) || (legal.has("200") && isAdmitted(answer));
  // A gateway or the API says that the query or the place is another one than it knows.
  const isOpen = route === "poi.enrich" && /^40[04]$/.test(`${answer.status}`) && legal.has("200");
  if (isLegal || isOpen) {
    if (!checks.isUnclear(answer)) checks.fine();
  } else if (isLaterCheck(answer)) {
    checks.fine();
    checks.note(`${answer.outcome} decides at runtime before ${[...legal].find((one) => /^40[13]/.test(one))}`);
  } else if (!checks.isUnclear(answer)) {
    const accepts = [...legal];
    // The sentence leaves out what is legal for any call: overload, and sessions that are switched off.
    const named = accepts.filter((one) => !isTransient(one) && !SESSIONS_OFF.includes(one));
    checks.breach(named.join(" or ") || accepts.join(" or "), callInWords(answer), [answer], accepts);
  }
};

const expected = "an answer that the specification allows this call";

export const MIXED_RULES: readonly Rule[] = [
  must("mixed-calls", [68, 69, 70, 71, 72, 74, 81, 145, 147, 149, 151, 153, 156], {
    title: "any call is answered by a check that it fails, and admitted only when it fails none",
    expected,
    cost: { calls: CALLS },
    step: async (context, checks) => {
      await context.each(await drawn(context, 0, CALLS), async (call) => judge(checks, await context.send(call)));
    },
  }),
  // Finds servers that keep the caller of a call in shared state across an await, and mint a session for another one.
  must("simultaneous-calls-keep-apart", [2, 46, 69, 153, 156], {
    title: "calls of different callers at the same moment are each answered as their own",
    expected,
    cost: { calls: (TOGETHER + 2 * MINT_BESIDE.length) * ROUNDS },
    step: async (context, checks) => {
      for (const [of, product] of SESSIONS) if (context.has(of)) await context.mint(of, product);
      const most = context.target.permits?.load_max_rps ?? Number.POSITIVE_INFINITY;
      const beside = MINT_BESIDE.filter(context.has).slice(0, most);
      const together = Math.min(TOGETHER, most - beside.length);
      for (let round = 0; round < ROUNDS; round++) {
        const mints = beside.map((of) => mint(of, "chat"));
        const calls = [...mints, ...(await drawn(context, CALLS + round * together, together))];
        const answers = await Promise.all(calls.map((call) => context.send({ ...call, atOnce: true })));
        for (const answer of answers) judge(checks, answer);
        for (const [i, of] of beside.entries()) {
          const value = answers[i]?.fields.session_token;
          if (typeof value !== "string") continue;
          const secret = { value, variable: "$SESSION_MINTED_BESIDE_OTHERS" };
          const what = "a session minted at the moment of other calls";
          judge(checks, await context.send(inSession("chat", "poi.enrich", { secret, what }, of)));
        }
      }
    },
  }),
];
