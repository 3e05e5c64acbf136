/** `<=` where `<` was meant. */
import type { Mutant } from "./mutant.ts";

export const admitsOneTooMany: Mutant = {
  name: "admits-one-too-many",
  harm: "each organization gets one load a month that nobody pays for",
  kills: ["admits-at-most-the-allowance"],
  stage: "edge-of-quota",
  spoil: (healthy) => ({
    ...healthy,
    limiterDecisions: {
      ...healthy.limiterDecisions,
      fits: (used, amount, cap) => cap === null || used + amount <= cap + 1,
    },
  }),
};
