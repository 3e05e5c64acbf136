/** `null` taken for no origin at all. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const acceptsNullOrigin: Mutant = {
  name: "accepts-null-origin",
  harm: "a sandboxed frame on any site passes for the key's own",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: instead(
      instead(
        healthy.orders,
        "exchange",
        "originIsListed",
        (check) => (call) => (call.origin === "null" ? null : check(call)),
      ),
      "runtime",
      "sessionOriginIsListed",
      (check) => (call) => (call.origin === "null" ? null : check(call)),
    ),
  }),
};
