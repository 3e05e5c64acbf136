import { describe, expect, test } from "vitest";
import type { Product, Scope } from "../contract/routes.ts";
import type { KeyRecord, KeySnapshot, Tier } from "./call.ts";
import { productRefusal, scopeRefusal, storedProduct } from "./meters.ts";

const ALL: Scope[] = ["ai", "design", "maps", "vendor"];
const snapshot = (scopes: Scope[], products: Product[], tier: Tier | null, kind: KeyRecord["kind"] = "publishable") =>
  ({ key: { kind, scopes, products }, org: { tier } }) as unknown as KeySnapshot;

describe("table B6: scope stored, product stored, tier admits", () => {
  test.each<[Scope[], Product[], Tier | null, Product, string | null]>([
    [["maps"], [], "Pro", "chat", "insufficient_scope"],
    [["maps"], ["tile"], "Pro", "chat", "insufficient_scope"],
    [["maps"], [], "Free", "chat", "insufficient_scope"],
    [["maps"], ["tile"], "Free", "chat", "insufficient_scope"],
    [["ai"], ["tile"], "Pro", "chat", "product_not_allowed"],
    [["ai"], ["tile"], "Free", "chat", "product_not_allowed"],
    [["ai"], ["chat"], "Free", "chat", "tier_capability_not_allowed"],
    [["ai"], [], "Free", "chat", "tier_capability_not_allowed"],
    [["ai"], [], null, "chat", "tier_capability_not_allowed"],
    [["ai"], ["chat"], "Pro", "chat", null],
    [["ai"], [], "Pro", "chat", null],
    [["design"], [], "Pro", "editor", null],
    [["maps"], [], "Free", "tile", null],
    [["maps"], ["tile"], "Free", "tile", null],
    [[], ["viewer"], "Pro", "viewer", null],
    [ALL, [], "Pro", "viewer", "product_not_allowed"],
    [ALL, ["viewer"], "Free", "viewer", "tier_capability_not_allowed"],
  ])("scopes %j, products %j, tier %s: minting %s gives %s", (scopes, products, tier, product, refusal) => {
    expect(productRefusal(snapshot(scopes, products, tier), product)).toBe(refusal);
  });
});

describe("a runtime call", () => {
  test.each<[string, KeySnapshot, Scope | null, Product | null, string | null]>([
    ["needs its scope in the key", snapshot(["maps"], [], "Pro"), "ai", "chat", "insufficient_scope"],
    ["needs its scope in the session's product (A16)", snapshot(ALL, [], "Pro"), "ai", "tile", "insufficient_scope"],
    [
      "needs the session's product in the key still",
      snapshot(ALL, ["tile"], "Pro"),
      "ai",
      "chat",
      "product_not_allowed",
    ],
    ["needs the tier for its scope (A17)", snapshot(ALL, [], "Free"), "ai", "chat", "tier_capability_not_allowed"],
    ["on Free has tile", snapshot(ALL, [], "Free"), "maps", "tile", null],
    ["by a server key has no product", snapshot(ALL, [], "Pro", "server"), "design", null, null],
    [
      "by a server key on Free has nothing (A15)",
      snapshot(ALL, [], "Free", "server"),
      "maps",
      null,
      "tier_capability_not_allowed",
    ],
    ["without a plan has nothing (item 158)", snapshot(ALL, [], null), "maps", "tile", "tier_capability_not_allowed"],
    [
      "needs the tier for its scope, also where no session says a product",
      snapshot(ALL, [], "Free"),
      "ai",
      null,
      "tier_capability_not_allowed",
    ],
    [
      "needs the tier for the session's product, also where the route has no scope",
      snapshot(ALL, ["viewer"], "Free"),
      null,
      "viewer",
      "tier_capability_not_allowed",
    ],
    ["on a route without a scope needs none", snapshot([], [], "Pro", "server"), null, null, null],
  ])("%s", (_, seen, scope, product, refusal) => {
    expect(scopeRefusal(seen, scope, product)).toBe(refusal);
  });
});

describe("an empty list of products (item 57)", () => {
  test.each<[Product, boolean]>([
    ["chat", true],
    ["editor", true],
    ["tile", true],
    ["viewer", false],
  ])("%s: %s", (product, stored) => {
    expect(storedProduct(snapshot([], [], "Pro").key, product)).toBe(stored);
  });
});
