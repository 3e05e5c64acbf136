/** Capability looked at before the origin, as when both stand in one condition. */
import type { Mutant } from "./mutant.ts";
import { movedAfter } from "./order-surgery.ts";

export const swapsTwoChecks: Mutant = {
  name: "swaps-two-checks",
  harm: "a browser on the wrong site learns what a key may do, and its owner is advised to buy a product instead of listing an origin",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: movedAfter(healthy.orders, "exchange", ["originIsPresent", "originIsListed"], "productIsAdmitted"),
  }),
};
