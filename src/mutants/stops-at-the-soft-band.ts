/** The allowance taken for the hard stop. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const stopsAtTheSoftBand: Mutant = {
  name: "stops-at-the-soft-band",
  harm: "a paying customer's maps go dark on the busiest day of the month",
  kills: ["admits-what-is-allowed"],
  stage: "edge-of-quota",
  spoil: (healthy) => ({
    ...healthy,
    orders: (["exchange", "runtime"] as const).reduce(
      (orders, order) =>
        instead(orders, order, "askLimiter", (check) => (call) => {
          const ask = check(call);
          if (ask === null || !("ask" in ask) || ask.ask !== "take" || ask.meter?.name !== "map_loads") return ask;
          return { ...ask, meter: { ...ask.meter, cap: call.snapshot.org.map_load_allowance } };
        }),
      healthy.orders,
    ),
  }),
};
