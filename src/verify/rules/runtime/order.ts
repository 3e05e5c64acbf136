/**
 * Which check decides when two fail (items 69, 81; part B): each call breaks an earlier and a later one, and the earlier
 * one's subcode is expected. Stated for the exchange, so a must there; chosen for runtime calls, so a should.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import type { KeyRole } from "../../../target/target.ts";
import { type Cell, tableRule } from "../../cells.ts";
import type { Context } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { exchangeCall, role } from "../../sending/test-call.ts";

const KIND = outcomeOf("publishable_key_required");
const NO_ORIGIN = outcomeOf("origin_required");
const MISMATCH = outcomeOf("session_origin_mismatch");
const SCOPE = outcomeOf("insufficient_scope");
const PRODUCT = outcomeOf("product_not_allowed");
const TIER = outcomeOf("tier_capability_not_allowed");
const BROWSER = outcomeOf("server_key_in_browser");
const ADDRESS = outcomeOf("ip_not_allowed");
const PUBLISHABLE = outcomeOf("publishable_requires_session");
const UNAUTHENTICATED = outcomeOf("unauthenticated");
const RESTRICTED = outcomeOf("tile_access_restricted");

const kindFirst = tableRule({
  id: "exchange-order-kind-before-origin",
  level: "must",
  spec: [69, 70, 81],
  title: "a key of the wrong kind without an Origin: the kind decides",
  phase: "order",
  needs: { anyOf: ["server", "server_no_design", "server_downgraded"] },
  cost: { calls: 12 },
  cells: (context) =>
    (["server", "server_no_design", "server_downgraded"] as const).filter(context.has).flatMap((of) =>
      (["chat", "editor", "tile", "viewer"] as const).map(
        (product): Cell => ({
          testCall: { route: "sdk.sessions", credential: { as: "server", of: role(of) }, origin: "none", product },
          accepts: [KIND],
        }),
      ),
    ),
});

/** Keys and products that check 3 would refuse. `viewer` is refused for most keys; where it is not, nothing is lost. */
const REFUSED_LATER: readonly { of: KeyRole; product: "chat" | "editor" | "viewer" }[] = [
  { of: "publishable", product: "viewer" },
  { of: "publishable_no_ai", product: "chat" },
  { of: "publishable_tile_only", product: "editor" },
  { of: "publishable_tile_only", product: "chat" },
  { of: "publishable_downgraded", product: "chat" },
  { of: "publishable_exhausted", product: "chat" },
];

const originFirst = tableRule({
  id: "exchange-order-origin-before-product",
  level: "must",
  spec: [69, 71, 72, 74, 81],
  title: "an Origin that is missing or foreign decides before a product that is not admitted",
  phase: "order",
  needs: { anyOf: ["publishable", "publishable_no_ai", "publishable_tile_only", "publishable_downgraded"] },
  cost: { calls: 12 },
  cells: (context) =>
    REFUSED_LATER.filter(({ of }) => context.has(of)).flatMap(({ of, product }): Cell[] => [
      { testCall: exchangeCall(of, "none", product), accepts: [NO_ORIGIN] },
      { testCall: exchangeCall(of, "foreign", product), accepts: [MISMATCH] },
    ]),
});

const EXHAUSTED: readonly KeyRole[] = ["publishable_exhausted", "publishable_hard_stop"];

const originBeforeQuota = tableRule({
  id: "exchange-order-origin-before-quota",
  level: "must",
  spec: [69, 79, 81],
  title: "an Origin that is missing or foreign decides before an allowance that is used up",
  phase: "order",
  needs: { anyOf: EXHAUSTED as never },
  cost: { calls: 4 },
  cells: (context) =>
    EXHAUSTED.filter(context.has).flatMap((of): Cell[] => [
      { testCall: exchangeCall(of, "none", "tile"), accepts: [NO_ORIGIN] },
      { testCall: exchangeCall(of, "foreign", "tile"), accepts: [MISMATCH], tolerates: [RESTRICTED] },
    ]),
});

const productBeforeQuota = tableRule({
  id: "exchange-order-product-before-quota",
  level: "must",
  spec: [69, 74, 80, 81],
  title: "a product that the tier does not admit decides before an allowance that is used up",
  phase: "order",
  needs: { roles: ["publishable_exhausted"] },
  cost: { calls: 2 },
  cells: () =>
    (["chat", "editor"] as const).map(
      (product): Cell => ({
        testCall: exchangeCall("publishable_exhausted", "listed", product),
        accepts: [TIER],
        tolerates: [PRODUCT, SCOPE],
      }),
    ),
});

const runtimeOrder = tableRule({
  id: "runtime-order",
  level: "should",
  spec: [148, 150, 151, 156],
  title: "at runtime kind, browser and address decide before scope and tier",
  phase: "order",
  needs: { anyOf: ["publishable", "server_no_design", "server_foreign_ip", "publishable_no_ai"] },
  cost: { calls: 7 },
  cells: (context: Context) => {
    const cells: Cell[] = [];
    const add = (needed: KeyRole, cell: () => Cell): void => {
      if (context.has(needed)) cells.push(cell());
    };
    const server = (of: KeyRole) => ({ as: "server", of: role(of) }) as const;
    add("server_no_design", () => ({
      testCall: { route: "design.styles", credential: server("server_no_design"), origin: "foreign" },
      accepts: [BROWSER],
      tolerates: [SCOPE],
    }));
    add("server_foreign_ip", () => ({
      testCall: { route: "design.styles", credential: server("server_foreign_ip"), origin: "foreign" },
      accepts: [BROWSER],
      tolerates: [ADDRESS],
    }));
    add("server_downgraded", () => ({
      testCall: { route: "poi.enrich", credential: server("server_downgraded"), origin: "foreign" },
      accepts: [BROWSER],
      tolerates: [TIER, SCOPE],
    }));
    add("publishable_no_ai", () => ({
      testCall: {
        route: "poi.enrich",
        credential: { as: "publishable", of: role("publishable_no_ai") },
        origin: "listed",
      },
      accepts: [PUBLISHABLE],
      tolerates: [SCOPE],
    }));
    add("publishable", () => ({
      testCall: {
        route: "design.styles",
        credential: { as: "session", of: role("publishable"), product: "chat" },
        origin: "foreign",
      },
      accepts: [MISMATCH],
      tolerates: [SCOPE, PRODUCT],
    }));
    for (const name of ["revoked", "expired"] as const) {
      add(name, () => ({
        testCall: exchangeCall(name, "foreign", "chat"),
        accepts: [UNAUTHENTICATED],
        tolerates: [MISMATCH, KIND],
      }));
    }
    return cells;
  },
});

export const ORDER_RULES: readonly Rule[] = [
  kindFirst,
  originFirst,
  originBeforeQuota,
  productBeforeQuota,
  runtimeOrder,
];
