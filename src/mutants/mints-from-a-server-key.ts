/** The exchange open to every kind of key. */
import type { Mutant } from "./mutant.ts";
import { without } from "./order-surgery.ts";

export const mintsFromAServerKey: Mutant = {
  name: "mints-from-a-server-key",
  harm: "server keys find their way into pages, because they work there",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: without(healthy.orders, "exchange", "keyIsPublishable"),
  }),
};
