/** What a key stores ∩ what its tier admits: products and scopes (items 46, 74-78, 156, 158; B6, A5, A15-A17). */
import { PRODUCT_SCOPE, type Product, type Scope } from "../contract/routes.ts";
import { type KeyRecord, type KeySnapshot, TIER_ADMITS } from "./records.ts";

type AdmissionRefusal = "insufficient_scope" | "product_not_allowed" | "tier_capability_not_allowed";

/** An empty restriction list restricts nothing but `viewer`, which must be named (item 57, A7). */
export const storedProduct = (key: Pick<KeyRecord, "products">, product: Product): boolean =>
  key.products.length === 0 ? product !== "viewer" : key.products.includes(product);

export const productRefusal = ({ key, org }: KeySnapshot, product: Product): AdmissionRefusal | null => {
  const scope = PRODUCT_SCOPE[product];
  if (scope !== null && !key.scopes.includes(scope)) return "insufficient_scope";
  if (!storedProduct(key, product)) return "product_not_allowed";
  const admits = org.tier === null ? null : TIER_ADMITS[org.tier];
  if (admits === null || !admits.products.includes(product) || (scope !== null && !admits.scopes.includes(scope))) {
    return "tier_capability_not_allowed";
  }
  return null;
};

/** The route's scope in the key and in a session's product, the product still admitted, all inside the tier. */
export const scopeRefusal = (
  { key, org }: KeySnapshot,
  scope: Scope | null,
  product: Product | null,
): AdmissionRefusal | null => {
  if (scope !== null && !key.scopes.includes(scope)) return "insufficient_scope";
  if (scope !== null && product !== null && PRODUCT_SCOPE[product] !== scope) return "insufficient_scope";
  if (product !== null && !storedProduct(key, product)) return "product_not_allowed";
  const admits = org.tier === null ? null : TIER_ADMITS[org.tier];
  if (admits === null || !admits.kinds.includes(key.kind)) return "tier_capability_not_allowed";
  if (scope !== null && !admits.scopes.includes(scope)) return "tier_capability_not_allowed";
  if (product !== null && !admits.products.includes(product)) return "tier_capability_not_allowed";
  return null;
};
