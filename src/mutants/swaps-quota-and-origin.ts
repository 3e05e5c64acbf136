/** The limiter asked before the origin was looked at. */
import type { Mutant } from "./mutant.ts";
import { movedBefore } from "./order-surgery.ts";

export const swapsQuotaAndOrigin: Mutant = {
  name: "swaps-quota-and-origin",
  harm: "anybody who copies a public key from a page can use up its owner's allowance from anywhere",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: movedBefore(
      healthy.orders,
      "exchange",
      ["askBody", "bodyIsWellFormed", "askLimiter", "limiterAnswered", "limiterAllows"],
      "originIsPresent",
    ),
  }),
};
