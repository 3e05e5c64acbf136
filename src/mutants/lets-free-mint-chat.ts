/** The tier looked at when a key is made, and not when it is used. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const letsFreeMintChat: Mutant = {
  name: "lets-free-mint-chat",
  harm: "whoever was on Pro for a day has chat for ever",
  kills: ["admission-is-stored-and-tier", "first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: instead(healthy.orders, "exchange", "productIsAdmitted", (check) => (call) => {
      const result = check(call);
      return result !== null && "refuse" in result && result.refuse === "tier_capability_not_allowed" ? null : result;
    }),
  }),
};
