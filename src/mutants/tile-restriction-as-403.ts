/** A12's other reading, on the platform that promises the first one. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const tileRestrictionAs403: Mutant = {
  name: "tile-restriction-as-403",
  harm: "map clients back off for an hour on 429 and not on 403: a misconfigured site asks for every tile again and again",
  kills: ["first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: instead(healthy.orders, "runtime", "sessionOriginIsListed", (check) => (call) => {
      const result = check(call);
      return result !== null && "refuse" in result ? { refuse: "session_origin_mismatch" } : result;
    }),
  }),
};
