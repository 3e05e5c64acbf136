/** `or` where `and` was meant: what is stored, or what the tier admits. */
import { PRODUCT_SCOPE, type Product } from "../contract/routes.ts";
import { storedProduct } from "../core/admission.ts";
import { TIER_ADMITS } from "../core/records.ts";
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const unitesInsteadOfIntersects: Mutant = {
  name: "unites-instead-of-intersects",
  harm: "a Free organization keeps every paid product, and a Pro one gets scopes it never asked for",
  kills: ["admission-is-stored-and-tier"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: instead(healthy.orders, "exchange", "productIsAdmitted", () => (call) => {
      const { key, org } = call.snapshot;
      const product = call.product as Product;
      const scope = PRODUCT_SCOPE[product];
      const stored = storedProduct(key, product) && (scope === null || key.scopes.includes(scope));
      const admitted = org.tier !== null && TIER_ADMITS[org.tier].products.includes(product);
      return stored || admitted ? null : { refuse: "tier_capability_not_allowed" };
    }),
  }),
};
