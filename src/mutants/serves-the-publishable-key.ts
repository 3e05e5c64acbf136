/** A public key taken at runtime, without a session. */
import type { Mutant } from "./mutant.ts";
import { without } from "./order-surgery.ts";

export const servesThePublishableKey: Mutant = {
  name: "serves-the-publishable-key",
  harm: "what stands in a page's source runs the inference, for anybody and for ever",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: without(healthy.orders, "runtime", "keyIsNotPublishable"),
  }),
};
