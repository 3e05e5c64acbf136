/** A route added without its scope. */
import type { Mutant } from "./mutant.ts";
import { instead } from "./order-surgery.ts";

export const ignoresTheScope: Mutant = {
  name: "ignores-the-scope",
  harm: "a key for tiles runs the inference at its owner's expense",
  kills: ["admission-is-stored-and-tier", "first-failing-check-decides"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    orders: instead(healthy.orders, "runtime", "scopeIsAdmitted", (check) => (call) => {
      const result = check(call);
      return result !== null && "refuse" in result && result.refuse === "insufficient_scope" ? null : result;
    }),
  }),
};
