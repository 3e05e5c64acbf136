/** The limiter asked before the body was read. */
import type { Mutant } from "./mutant.ts";
import { movedBefore } from "./order-surgery.ts";

export const chargesTheMalformed: Mutant = {
  name: "charges-the-malformed",
  harm: "a client with a typing error burns its allowance on 422s",
  kills: ["refused-is-not-charged"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: movedBefore(healthy.orders, "runtime", ["askLimiter", "limiterAnswered", "limiterAllows"], "askBody"),
  }),
};
