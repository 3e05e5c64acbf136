/** Every session counted as a map load. */
import { mapLoadCap } from "../core/meters.ts";
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const chargesOtherProducts: Mutant = {
  name: "charges-other-products",
  harm: "customers pay for chats as for maps",
  kills: ["refused-is-not-charged"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: instead(healthy.orders, "exchange", "askLimiter", () => (call) => ({
      ask: "take",
      rate: call.deployment.rate,
      meter: { name: "map_loads", amount: 1, cap: mapLoadCap(call.snapshot.org) },
    })),
  }),
};
