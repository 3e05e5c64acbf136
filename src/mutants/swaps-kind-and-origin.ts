/** The origin looked at before the kind of key, which is the first check of the exchange. */
import type { Mutant } from "./mutant.ts";
import { movedAfter } from "./order-surgery.ts";

export const swapsKindAndOrigin: Mutant = {
  name: "swaps-kind-and-origin",
  harm: "whoever mints with a server key reads of a missing origin and adds one, instead of using the right key",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: movedAfter(healthy.orders, "exchange", ["keyIsPublishable"], "originIsListed"),
  }),
};
