/**
 * What a key and a session may do at runtime: scopes, the session's product, the organization's tier (items 2, 4, 5, 13, 46,
 * 48, 156, 192, 193; table B6). Each rule breaks one condition alone, so only one subcode fits; where the specification leaves
 * two, both pass.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { ANY_SUCCESS } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import { RUNTIME_ROUTES } from "../../runtime-routes.ts";
import { FORMS, role } from "../../sending/test-call.ts";

const SCOPE = outcomeOf("insufficient_scope");
const PRODUCT = outcomeOf("product_not_allowed");
const TIER = outcomeOf("tier_capability_not_allowed");
const AI = RUNTIME_ROUTES.filter((route) => !route.startsWith("design."));
const DESIGN = RUNTIME_ROUTES.filter((route) => route.startsWith("design."));

const runtimeScope = tableRule({
  id: "runtime-insufficient-scope",
  level: "must",
  spec: [5, 117, 156, 192],
  title: "a key without the scope design is answered 403 insufficient_scope on every design route",
  phase: "lattice",
  needs: { roles: ["server_no_design"] },
  cost: { calls: 5 },
  cells: () =>
    DESIGN.map(
      (route, i): Cell => ({
        testCall: {
          route,
          credential: { as: "server", of: role("server_no_design") },
          origin: "none",
          form: FORMS[i % 2] as "bearer",
        },
        accepts: [SCOPE],
      }),
    ),
});

const runtimeOtherScope = tableRule({
  id: "runtime-serves-what-is-in-scope",
  level: "must",
  spec: [4, 42, 156],
  title: "a key without design is still served on the routes of its other scopes",
  phase: "lattice",
  needs: { roles: ["server_no_design"] },
  cost: { calls: 1 },
  cells: () => [
    {
      testCall: { route: "chat.control", credential: { as: "server", of: role("server_no_design") }, origin: "none" },
      accepts: [ANY_SUCCESS],
    },
  ],
});

const sessionScope = tableRule({
  id: "session-insufficient-scope",
  level: "must",
  spec: [4, 100, 156, 192],
  title: "a session of a key without the scope ai is refused on every route of that scope",
  phase: "lattice",
  needs: { roles: ["publishable_no_ai"] },
  cost: { calls: 6 },
  cells: () =>
    AI.map(
      (route, i): Cell => ({
        testCall: {
          route,
          credential: { as: "session", of: role("publishable_no_ai"), product: "editor" },
          origin: "listed",
          form: FORMS[i % 2] as "bearer",
        },
        accepts: [SCOPE],
        tolerates: [PRODUCT],
      }),
    ),
});

const sessionNarrows = tableRule({
  id: "session-keeps-to-its-product",
  level: "should",
  spec: [2, 156],
  title: "a session minted for one product is refused on the routes of another scope (A16)",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 4 },
  cells: () =>
    (
      [
        ["chat", "design.styles"],
        ["chat", "design.apply"],
        ["editor", "chat.control"],
        ["editor", "poi.enrich"],
      ] as const
    ).map(
      ([product, route]): Cell => ({
        testCall: { route, credential: { as: "session", of: role("publishable"), product }, origin: "listed" },
        accepts: [SCOPE],
        tolerates: [PRODUCT],
      }),
    ),
});

const tileSessionOfDowngraded = tableRule({
  id: "downgraded-session-is-refused",
  level: "should",
  spec: [46, 156, 193],
  title: "a tile session of a downgraded organization opens neither chat nor design (A16, A17)",
  phase: "lattice",
  needs: { roles: ["publishable_downgraded"], spends: { map_loads: 1 } },
  cost: { calls: 4, map_loads: 1 },
  cells: () =>
    (["poi.enrich", "chat.control", "design.styles"] as const).map(
      (route): Cell => ({
        testCall: {
          route,
          credential: { as: "session", of: role("publishable_downgraded"), product: "tile" },
          origin: "listed",
        },
        accepts: [SCOPE],
        tolerates: [TIER, PRODUCT],
      }),
    ),
});

const serverOfDowngraded = tableRule({
  id: "downgraded-server-key",
  level: "should",
  spec: [13, 48],
  title: "a server key of an organization downgraded to Free is answered 403 tier_capability_not_allowed (A15)",
  phase: "lattice",
  needs: { roles: ["server_downgraded"] },
  cost: { calls: 3 },
  cells: () =>
    (["design.styles", "poi.enrich", "chat.control"] as const).map(
      (route): Cell => ({
        testCall: { route, credential: { as: "server", of: role("server_downgraded") }, origin: "none" },
        accepts: [TIER],
        tolerates: [SCOPE],
      }),
    ),
});

export const RUNTIME_CAPABILITY_RULES: readonly Rule[] = [
  runtimeScope,
  runtimeOtherScope,
  sessionScope,
  sessionNarrows,
  tileSessionOfDowngraded,
  serverOfDowngraded,
];
