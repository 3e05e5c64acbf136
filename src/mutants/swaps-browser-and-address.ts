/** A server key's address looked at before whether a browser sent it. */
import type { Mutant } from "./mutant.ts";
import { movedAfter } from "./order-surgery.ts";

export const swapsBrowserAndAddress: Mutant = {
  name: "swaps-browser-and-address",
  harm: "a server key that leaked into a page is reported as a matter of addresses, and stays there",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: movedAfter(healthy.orders, "runtime", ["serverKeyIsNotInBrowser"], "addressIsListed"),
  }),
};
