/** The tier limits products, and somebody forgot that it limits kinds of keys too. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const servesServerKeysOnFree: Mutant = {
  name: "serves-server-keys-on-free",
  harm: "an organization that stopped paying keeps its servers running on the API",
  kills: ["admission-is-stored-and-tier", "first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: instead(healthy.orders, "runtime", "scopeIsAdmitted", (check) => (call) => {
      const result = check(call);
      return result !== null && "refuse" in result && result.refuse === "tier_capability_not_allowed" ? null : result;
    }),
  }),
};
