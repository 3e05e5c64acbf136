/** Nobody is served without a credential (items 107, 111, 153, 190; A1). */
import { outcomeOf } from "../../../contract/refusals.ts";
import { PRODUCTS, type RouteName } from "../../../contract/routes.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { pairwise } from "../../pairwise.ts";
import { RUNTIME_ROUTES } from "../../runtime-routes.ts";
import type { TestCall } from "../../sending/test-call.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");

/** Routes of which it is stated that their refusals keep their status; the other is A11. */
export const PLAIN_ROUTES: readonly RouteName[] = [
  "sdk.sessions",
  ...RUNTIME_ROUTES.filter((name) => name !== "chat.route"),
];

export const ORIGINS = ["none", "foreign"] as const;

export const productFor = (route: RouteName, i: number): Pick<TestCall, "product"> =>
  route === "sdk.sessions" ? { product: PRODUCTS.filter((name) => name !== "viewer")[i % 3] as "chat" } : {};

export const missingCredential = tableRule({
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

export const missingOnRoute = tableRule({
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
