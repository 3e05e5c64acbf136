/**
 * Monthly meters (items 10, 79, 204-207, 225-234; A8, A8b): a charge is admitted if and only if `used + amount <= cap`.
 */
import { HARD_STOP_FACTOR } from "../contract/refusals.ts";
import { PRODUCT_SCOPE, type Product, type Scope } from "../contract/routes.ts";
import { type KeyKind, type KeyRecord, type KeySnapshot, type Organization, TIER_ADMITS } from "./call.ts";

export const mapLoadCap = (org: Organization): number =>
  org.tier === "Pro" ? org.map_load_allowance * HARD_STOP_FACTOR : org.map_load_allowance;

export const overCapRefusal = (org: Organization): "map_load_hard_stop" | "map_load_quota_exceeded" =>
  org.tier === "Pro" ? "map_load_hard_stop" : "map_load_quota_exceeded";

/** Reports whether a charge fits under the cap, which is `null` for a meter that only counts (item 122). */
export const fits = (used: number, amount: number, cap: number | null): boolean => cap === null || used + amount <= cap;

/** The UTC month as `YYYY-MM` (item 229). */
export const windowOf = (nowMs: number): string => {
  const at = new Date(Math.floor(nowMs));
  return `${at.getUTCFullYear()}-${String(at.getUTCMonth() + 1).padStart(2, "0")}`;
};

// Admits products and scopes that the key stores and its tier admits (items 46, 74-78, 156, 158; B6, A5, A15-A17).

type AdmissionRefusal = "insufficient_scope" | "product_not_allowed" | "tier_capability_not_allowed";

/** An empty restriction list restricts nothing but `viewer`, which must be named (item 57, A7). */
export const storedProduct = (key: Pick<KeyRecord, "products">, product: Product): boolean =>
  key.products.length === 0 ? product !== "viewer" : key.products.includes(product);

/** Checks that key and product have the scope, that the key has the product, and that the tier admits all of it. */
export const scopeRefusal = (
  { key, org }: KeySnapshot,
  scope: Scope | null,
  product: Product | null,
  kind: KeyKind = key.kind,
): AdmissionRefusal | null => {
  if (scope !== null && !key.scopes.includes(scope)) return "insufficient_scope";
  if (scope !== null && product !== null && PRODUCT_SCOPE[product] !== scope) return "insufficient_scope";
  if (product !== null && !storedProduct(key, product)) return "product_not_allowed";
  const admits = org.tier === null ? null : TIER_ADMITS[org.tier];
  const fits =
    admits?.kinds.includes(kind) &&
    (scope === null || admits.scopes.includes(scope)) &&
    (product === null || admits.products.includes(product));
  return fits ? null : "tier_capability_not_allowed";
};

/** Only publishable keys are exchanged. */
export const productRefusal = (snapshot: KeySnapshot, product: Product): AdmissionRefusal | null =>
  scopeRefusal(snapshot, PRODUCT_SCOPE[product], product, "publishable");
