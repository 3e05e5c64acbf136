/** `>` where `>=` was meant. */
import type { Mutant } from "./mutant.ts";

export const keyLimitOffByOne: Mutant = {
  name: "key-limit-off-by-one",
  harm: "each organization has one key more than its plan",
  kills: ["verify/keys-limit-reached"],
  stage: "verify",
  spoil: (healthy) => ({
    ...healthy,
    keyDecisions: {
      ...healthy.keyDecisions,
      decideCreation: (org, liveKeys, request) => healthy.keyDecisions.decideCreation(org, liveKeys - 1, request),
    },
  }),
};
