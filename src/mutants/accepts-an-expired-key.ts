/** The date of expiry stored and never read. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const acceptsAnExpiredKey: Mutant = {
  name: "accepts-an-expired-key",
  harm: "keys that were lent for a week work for years",
  kills: ["revoked-stays-out", "first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: (["exchange", "runtime"] as const).reduce(
      (orders, order) =>
        instead(
          orders,
          order,
          "keyIsGood",
          (check) => (call) => (call.lookup !== null && call.snapshot.key.status === "expired" ? null : check(call)),
        ),
      healthy.orders,
    ),
  }),
};
