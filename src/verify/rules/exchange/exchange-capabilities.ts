/**
 * What a key may mint: its stored scopes and products ∩ its organization's tier (items 42, 45, 46, 74-77, 192-196; table B6).
 * Each rule breaks one condition alone, so only one subcode fits; where the specification leaves two, both pass.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import type { KeyRole } from "../../../target/target.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { ANY_SUCCESS } from "../../checks.ts";
import type { Context } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { exchangeCall } from "../../sending/test-call.ts";

const SCOPE = outcomeOf("insufficient_scope");
const PRODUCT = outcomeOf("product_not_allowed");
const TIER = outcomeOf("tier_capability_not_allowed");
const QUOTA = [outcomeOf("map_load_quota_exceeded"), outcomeOf("map_load_hard_stop")];

/** Both headers, so that each rule meets them. */
const mints = async (
  context: Context,
  of: KeyRole,
  products: readonly ("chat" | "editor")[],
  accepts: readonly string[],
): Promise<Cell[]> => {
  const forms = await context.exchangeForms();
  return products.flatMap((product) =>
    forms.map((form): Cell => ({ testCall: exchangeCall(of, "listed", product, { form }), accepts })),
  );
};

const exchangeScope = tableRule({
  id: "exchange-insufficient-scope",
  level: "must",
  spec: [42, 76, 192],
  title: "a key that never had the scope ai cannot mint a chat session: 403 insufficient_scope",
  phase: "lattice",
  needs: { roles: ["publishable_no_ai"] },
  cost: { calls: 2 },
  cells: (context) => mints(context, "publishable_no_ai", ["chat"], [SCOPE]),
});

const exchangeOtherScope = tableRule({
  id: "exchange-mints-what-is-in-scope",
  level: "must",
  spec: [42, 46, 76],
  title: "a key without ai still mints the session that its other scopes allow",
  phase: "lattice",
  needs: { roles: ["publishable_no_ai"] },
  cost: { calls: 2 },
  cells: (context) => mints(context, "publishable_no_ai", ["editor"], [ANY_SUCCESS]),
});

const exchangeProduct = tableRule({
  id: "exchange-product-not-allowed",
  level: "must",
  spec: [45, 74, 77, 196],
  title: "a key restricted to tile cannot mint another product: 403 product_not_allowed",
  phase: "lattice",
  needs: { roles: ["publishable_tile_only"] },
  cost: { calls: 4 },
  // Nobody says which scopes it has; a key that was seen to have them is `key-is-narrowed-and-widened`'s.
  cells: async (context) =>
    (await mints(context, "publishable_tile_only", ["chat", "editor"], [PRODUCT])).map((cell) => ({
      ...cell,
      tolerates: [SCOPE],
    })),
});

const exchangeTier = tableRule({
  id: "exchange-tier-capability",
  level: "must",
  spec: [13, 46, 75, 193],
  title: "a full key of an organization downgraded to Free mints nothing but tile: 403 tier_capability_not_allowed",
  phase: "lattice",
  needs: { roles: ["publishable_downgraded"] },
  cost: { calls: 4 },
  cells: (context) => mints(context, "publishable_downgraded", ["chat", "editor"], [TIER]),
});

const restrictedTile = (id: string, of: KeyRole, spec: readonly number[], title: string): Rule =>
  tableRule({
    id,
    level: "must",
    spec,
    title,
    phase: "lattice",
    needs: { roles: [of], spends: { map_loads: 1 } },
    cost: { calls: 1, map_loads: 1 },
    // An allowance that is used up is reported only after the product was found allowed.
    cells: () => [{ testCall: exchangeCall(of, "listed", "tile"), accepts: [ANY_SUCCESS], tolerates: QUOTA }],
  });

export const EXCHANGE_CAPABILITY_RULES: readonly Rule[] = [
  exchangeScope,
  exchangeOtherScope,
  exchangeProduct,
  restrictedTile(
    "exchange-restricted-key-mints-tile",
    "publishable_tile_only",
    [45, 46, 74],
    "a key restricted to tile mints tile",
  ),
  exchangeTier,
  restrictedTile(
    "exchange-downgraded-mints-tile",
    "publishable_downgraded",
    [46, 75],
    "an organization downgraded to Free still mints tile",
  ),
];
