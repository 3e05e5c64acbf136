/** The organization's cap looked at after the limiter was asked. */
import type { Mutant } from "./mutant.ts";
import { movedAfter } from "./order-surgery.ts";

export const chargesTheShed: Mutant = {
  name: "charges-the-shed",
  harm: "an organization in trouble pays for every call that was turned away",
  kills: ["refused-is-not-charged"],
  stage: "noisy",
  spoil: (healthy) => ({
    ...healthy,
    orders: movedAfter(healthy.orders, "runtime", ["organizationHasRoom"], "limiterAllows"),
  }),
};
