/** The allowlist stored and never read. */
import type { Mutant } from "./mutant.ts";
import { without } from "./order-surgery.ts";

export const acceptsAnyOrigin: Mutant = {
  name: "accepts-any-origin",
  harm: "a key copied from one site works on every other, at its owner's expense",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: without(without(healthy.orders, "exchange", "originIsListed"), "runtime", "sessionOriginIsListed"),
  }),
};
