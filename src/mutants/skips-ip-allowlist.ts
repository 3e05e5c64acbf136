/** The address allowlist stored and never read. */
import type { Mutant } from "./mutant.ts";
import { without } from "./order-surgery.ts";

export const skipsIpAllowlist: Mutant = {
  name: "skips-ip-allowlist",
  harm: "a leaked server key works from anywhere",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: without(healthy.orders, "runtime", "addressIsListed"),
  }),
};
