/** The check for an `Origin` left out. */
import type { Mutant } from "./mutant.ts";
import { without } from "./order-surgery.ts";

export const acceptsServerKeyInBrowser: Mutant = {
  name: "accepts-server-key-in-browser",
  harm: "a secret key in a page works, so nobody notices that it is public now",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: without(healthy.orders, "runtime", "serverKeyIsNotInBrowser"),
  }),
};
