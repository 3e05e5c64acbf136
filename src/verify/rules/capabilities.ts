/**
 * What a key may do: its stored scopes and products ∩ its organization's tier (items 46, 74-78, 156, 192-196; table B6).
 * Each rule breaks one condition alone, so only one subcode fits; where the specification leaves two, both pass.
 */
import { outcomeOf } from "../../contract/subcodes.ts";
import type { KeyRole } from "../../drivers/target.ts";
import { type Cell, tableRule } from "../cells.ts";
import { ANY_SUCCESS } from "../checks.ts";
import type { Context } from "../context.ts";
import { exchangeProbe, FORMS, role } from "../probe.ts";
import { RUNTIME_ROUTES, type Rule } from "../rule.ts";

const SCOPE = outcomeOf("insufficient_scope");
const PRODUCT = outcomeOf("product_not_allowed");
const TIER = outcomeOf("tier_capability_not_allowed");
const QUOTA = [outcomeOf("map_load_quota_exceeded"), outcomeOf("map_load_hard_stop")];

const AI = RUNTIME_ROUTES.filter((route) => !route.startsWith("design."));
const DESIGN = RUNTIME_ROUTES.filter((route) => route.startsWith("design."));

/** Both headers, so that each rule meets them. */
const mints = async (
  context: Context,
  of: KeyRole,
  products: readonly ("chat" | "editor")[],
  accepts: readonly string[],
): Promise<Cell[]> => {
  const forms = await context.exchangeForms();
  return products.flatMap((product) =>
    forms.map((form): Cell => ({ probe: exchangeProbe(of, "listed", product, { form }), accepts })),
  );
};

const exchangeScope = tableRule({
  id: "exchange-insufficient-scope",
  level: "must",
  spec: [42, 76, 192],
  title: "a key that never had the scope ai cannot mint a chat session: 403 insufficient_scope",
  phase: "lattice",
  needs: { roles: ["publishable_no_ai"] },
  cells: (context) => mints(context, "publishable_no_ai", ["chat"], [SCOPE]),
});

const exchangeOtherScope = tableRule({
  id: "exchange-mints-what-is-in-scope",
  level: "must",
  spec: [42, 46, 76],
  title: "a key without ai still mints the session that its other scopes allow",
  phase: "lattice",
  needs: { roles: ["publishable_no_ai"] },
  cells: (context) => mints(context, "publishable_no_ai", ["editor"], [ANY_SUCCESS]),
});

const exchangeProduct = tableRule({
  id: "exchange-product-not-allowed",
  level: "must",
  spec: [45, 74, 77, 196],
  title: "a key restricted to tile cannot mint another product: 403 product_not_allowed",
  phase: "lattice",
  needs: { roles: ["publishable_tile_only"] },
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
    // An allowance that is used up is told only after the product was found allowed.
    cells: () => [{ probe: exchangeProbe(of, "listed", "tile"), accepts: [ANY_SUCCESS], tolerates: QUOTA }],
  });

const runtimeScope = tableRule({
  id: "runtime-insufficient-scope",
  level: "must",
  spec: [5, 117, 156, 192],
  title: "a key without the scope design is answered 403 insufficient_scope on every design route",
  phase: "lattice",
  needs: { roles: ["server_no_design"] },
  cells: () =>
    DESIGN.map(
      (route, i): Cell => ({
        probe: {
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
  cells: () => [
    {
      probe: { route: "chat.control", credential: { as: "server", of: role("server_no_design") }, origin: "none" },
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
  cells: () =>
    AI.map(
      (route, i): Cell => ({
        probe: {
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
        probe: { route, credential: { as: "session", of: role("publishable"), product }, origin: "listed" },
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
  cells: () =>
    (["poi.enrich", "chat.control", "design.styles"] as const).map(
      (route): Cell => ({
        probe: {
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
  cells: () =>
    (["design.styles", "poi.enrich", "chat.control"] as const).map(
      (route): Cell => ({
        probe: { route, credential: { as: "server", of: role("server_downgraded") }, origin: "none" },
        accepts: [TIER],
        tolerates: [SCOPE],
      }),
    ),
});

export const CAPABILITY_RULES: readonly Rule[] = [
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
  runtimeScope,
  runtimeOtherScope,
  sessionScope,
  sessionNarrows,
  tileSessionOfDowngraded,
  serverOfDowngraded,
];
