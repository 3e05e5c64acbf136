/** Who is let in at all (items 143, 153, 190; A1): nobody without a good credential, whatever else is right or wrong. */

import { outcomeOf } from "../../../contract/refusals.ts";
import { PRODUCTS, type RouteName } from "../../../contract/routes.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { ANY_SUCCESS, Checks } from "../../checks.ts";
import { type Context, callersOf, scopeOf } from "../../context.ts";
import { NOBODIES, type Nobody } from "../../nobodies.ts";
import { pairwise } from "../../pairwise.ts";
import { RUNTIME_ROUTES, type Rule } from "../../rule.ts";
import { deadlineMs, expectOver } from "../../sending/settling.ts";
import { exchangeCall, FORMS, role, type TestCall } from "../../sending/test-call.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");
const PUBLISHABLE = outcomeOf("publishable_requires_session");
const KIND = outcomeOf("publishable_key_required");
const NO_ORIGIN = outcomeOf("origin_required");
const BROWSER = outcomeOf("server_key_in_browser");

/** Routes of which it is stated that their refusals keep their status; the other is A11. */
const PLAIN_ROUTES: readonly RouteName[] = ["sdk.sessions", ...RUNTIME_ROUTES.filter((name) => name !== "chat.route")];
const ORIGINS = ["none", "foreign"] as const;

const productFor = (route: RouteName, i: number): Pick<TestCall, "product"> =>
  route === "sdk.sessions" ? { product: PRODUCTS.filter((name) => name !== "viewer")[i % 3] as "chat" } : {};

const missingCredential = tableRule({
  id: "missing-credential",
  level: "must",
  spec: [153, 190, 111],
  title: "a call without a credential is answered 401, on every route",
  phase: "lattice",
  needs: {},
  cost: { calls: 20 },
  cells: () =>
    pairwise({ route: PLAIN_ROUTES, origin: ORIGINS }).map(
      ({ route, origin }, i): Cell => ({
        testCall: { route, credential: { as: "none" }, origin, ...productFor(route, i) },
        accepts: [UNAUTHENTICATED],
      }),
    ),
});

const missingOnRoute = tableRule({
  id: "missing-credential-on-chat-route",
  level: "should",
  spec: [107, 153],
  title: "the route whose failures travel under 200 still answers 401 to a call without a credential",
  phase: "lattice",
  needs: {},
  cost: { calls: 1 },
  cells: () => [
    { testCall: { route: "chat.route", credential: { as: "none" }, origin: "none" }, accepts: [UNAUTHENTICATED] },
  ],
});

/**
 * The kind can be told from the prefix, and a missing Origin from the head, before a key is looked up. So whatever begins with
 * `svc_sk_` or `svc_sess_` may be told `publishable_key_required` at the exchange, also when nobody issued it: the kind is the first
 * of the four checks of 4.1 (items 69-70), of 401 it is not stated where it stands among them (83, A1), and that an invalid session
 * is answered 401 there is a resolution of A4, not a statement. It is refused either way. A text without such a prefix is 401.
 */
const earlier = (kind: Nobody["kind"], route: RouteName, origin: string): string[] => {
  if (route === "sdk.sessions") {
    if (kind === "publishable") return origin === "none" ? [NO_ORIGIN] : [];
    return kind === "garbage" ? [] : [KIND, ...(kind === "server" && origin !== "none" ? [BROWSER] : [])];
  }
  if (kind === "publishable") return [PUBLISHABLE, ...(origin === "none" ? [NO_ORIGIN] : [])];
  return kind === "server" && origin !== "none" ? [BROWSER] : [];
};

const invalidCredential = tableRule({
  id: "invalid-credential",
  level: "must",
  spec: [153, 190],
  title: "a credential that nobody issued is answered 401, on every route, in either header",
  phase: "lattice",
  needs: {},
  cost: { calls: 43 },
  cells: () => [
    ...pairwise({ route: PLAIN_ROUTES, nobody: NOBODIES, origin: ORIGINS, form: FORMS }).map(
      ({ route, nobody, origin, form }, i): Cell => ({
        testCall: {
          ...(earlier(nobody.kind, route, origin).length > 0 ? { open: true as const } : {}),
          route,
          credential: { as: nobody.kind === "garbage" ? "garbage" : "unknown" },
          secret: nobody.secret,
          what: nobody.what,
          origin,
          form,
          ...productFor(route, i),
        },
        accepts: [UNAUTHENTICATED],
        tolerates: earlier(nobody.kind, route, origin),
      }),
    ),
    ...(["Basic dXNlcjpwYXNzd29yZA==", "Bearer", "Bearer "] as const).map(
      (authorization): Cell => ({
        testCall: {
          route: "design.styles",
          credential: { as: "none" },
          origin: "none",
          headers: { authorization },
          what: `the header "Authorization: ${authorization.trim()}"`,
        },
        accepts: [UNAUTHENTICATED],
      }),
    ),
  ],
});

/** A revoked or expired key, where it would be used if it were good. Its place among the checks is not stated (A1). */
const spentKeyCells = async (context: Context, name: "revoked" | "expired"): Promise<Cell[]> => {
  const kind = await context.kindOf(name);
  const credential = { as: kind, of: role(name) } as const;
  const facts = { state: name };
  const runtime = pairwise({ route: RUNTIME_ROUTES.filter((route) => route !== "chat.route"), form: FORMS }).map(
    ({ route, form }): Cell => ({
      testCall: { route, credential, origin: "none", form, facts },
      accepts: [UNAUTHENTICATED],
      tolerates: kind === "publishable" ? [PUBLISHABLE, NO_ORIGIN] : [],
    }),
  );
  if (kind === "server") return runtime;
  const exchange = (["chat", "editor"] as const).map(
    (product): Cell => ({
      testCall: exchangeCall(name, "listed", product, { facts }),
      accepts: [UNAUTHENTICATED],
    }),
  );
  return [...exchange, ...runtime.slice(0, 4)];
};

const spentKey = (name: "revoked" | "expired"): Rule => ({
  id: `${name}-key`,
  level: "must",
  spec: [61, 142, 153, 190],
  title: `a key that is ${name} is answered 401`,
  phase: "lattice",
  needs: { roles: [name] },
  cost: { calls: 14 },
  run: async (context) => {
    const checks = new Checks("401, and no session");
    const endMs = deadlineMs(context);
    await context.each(await spentKeyCells(context, name), (cell) => expectOver(context, checks, cell, endMs));
    return checks.result();
  },
});

const eitherHeader = tableRule({
  id: "either-header",
  level: "must",
  spec: [22, 143],
  title: "a credential is accepted in Authorization: Bearer and in X-Api-Key alike",
  phase: "lattice",
  needs: { anyOf: ["server", "publishable"] },
  cost: { calls: 8 },
  cells: (context) =>
    (["design.styles", "design.themes"] as const).flatMap((route) =>
      callersOf(context, scopeOf(route)).flatMap((caller) =>
        FORMS.map((form): Cell => ({ testCall: { route, ...caller, form }, accepts: [ANY_SUCCESS] })),
      ),
    ),
});

const exchangeHeader = tableRule({
  id: "either-header-at-the-exchange",
  level: "should",
  spec: [143],
  title: "the exchange takes a publishable key in Authorization: Bearer and in X-Api-Key alike",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 2 },
  cells: () =>
    FORMS.map(
      (form): Cell => ({
        testCall: exchangeCall("publishable", "listed", "editor", { form }),
        accepts: [ANY_SUCCESS],
      }),
    ),
});

export const CREDENTIAL_RULES: readonly Rule[] = [
  missingCredential,
  missingOnRoute,
  invalidCredential,
  spentKey("revoked"),
  spentKey("expired"),
  eitherHeader,
  exchangeHeader,
];
