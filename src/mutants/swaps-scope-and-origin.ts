/** At runtime the scope looked at before the session's origin. */
import type { Mutant } from "./mutant.ts";
import { movedAfter } from "./order-surgery.ts";

export const swapsScopeAndOrigin: Mutant = {
  name: "swaps-scope-and-origin",
  harm: "a stolen session on a foreign site can ask which scopes it has",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: movedAfter(healthy.orders, "runtime", ["sessionOriginIsListed"], "scopeIsAdmitted"),
  }),
};
