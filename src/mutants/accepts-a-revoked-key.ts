/** Existence taken for validity. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const acceptsARevokedKey: Mutant = {
  name: "accepts-a-revoked-key",
  harm: "revoking a stolen key does nothing",
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
          (check) => (call) => (call.lookup !== null && call.snapshot.key.status === "revoked" ? null : check(call)),
        ),
      healthy.orders,
    ),
  }),
};
