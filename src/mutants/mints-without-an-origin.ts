/** A missing origin let through, because some clients send none. */
import type { Mutant } from "./mutant.ts";
import { instead, without } from "./order-surgery.ts";

export const mintsWithoutAnOrigin: Mutant = {
  name: "mints-without-an-origin",
  harm: "a script outside any browser mints sessions with a key that was only ever meant to be public",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: instead(
      without(healthy.orders, "exchange", "originIsPresent"),
      "exchange",
      "originIsListed",
      (check) => (call) => (call.origin === null ? null : check(call)),
    ),
  }),
};
