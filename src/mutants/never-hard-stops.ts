/** A paid organization taken to be without limit. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const neverHardStops: Mutant = {
  name: "never-hard-stops",
  harm: "a loop in a customer's page runs up a bill that nobody agreed to",
  kills: ["admits-at-most-the-allowance"],
  stage: "edge-of-quota",
  spoil: (healthy) => ({
    ...healthy,
    orders: (["exchange", "runtime"] as const).reduce(
      (orders, order) =>
        instead(orders, order, "askLimiter", (check) => (call) => {
          const ask = check(call);
          if (ask === null || !("ask" in ask) || ask.ask !== "take" || ask.meter === null) return ask;
          return call.snapshot.org.tier === "Pro" ? { ...ask, meter: { ...ask.meter, cap: null } } : ask;
        }),
      healthy.orders,
    ),
  }),
};
