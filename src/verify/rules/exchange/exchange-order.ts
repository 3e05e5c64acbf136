/**
 * Which check of the exchange decides when two fail (items 69, 81; part B): each call breaks an earlier and a later one, and the
 * earlier one's subcode is expected.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import type { KeyRole } from "../../../target/target.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { exchangeCall, role } from "../../sending/test-call.ts";

const KIND = outcomeOf("publishable_key_required");
const NO_ORIGIN = outcomeOf("origin_required");
const MISMATCH = outcomeOf("session_origin_mismatch");
const SCOPE = outcomeOf("insufficient_scope");
const PRODUCT = outcomeOf("product_not_allowed");
const TIER = outcomeOf("tier_capability_not_allowed");
const RESTRICTED = outcomeOf("tile_access_restricted");

export const kindFirst = tableRule({
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

export const originFirst = tableRule({
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

export const originBeforeQuota = tableRule({
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

export const productBeforeQuota = tableRule({
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
