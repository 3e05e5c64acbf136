/** An empty list of restrictions taken to allow everything. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const unlocksTheViewer: Mutant = {
  name: "unlocks-the-viewer",
  harm: "every key mints viewer sessions, which were to be asked for by name",
  kills: ["admission-is-stored-and-tier", "first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: instead(
      healthy.orders,
      "exchange",
      "productIsAdmitted",
      (check) => (call) => (call.product === "viewer" ? null : check(call)),
    ),
  }),
};
