/** Restrictions of a key stored and shown, and not enforced. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const forgetsProductRestrictions: Mutant = {
  name: "forgets-product-restrictions",
  harm: "a key meant for one map on one page mints sessions for the editor",
  kills: ["admission-is-stored-and-tier", "first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: instead(healthy.orders, "exchange", "productIsAdmitted", (check) => (call) => {
      const result = check(call);
      return result !== null && "refuse" in result && result.refuse === "product_not_allowed" ? null : result;
    }),
  }),
};
