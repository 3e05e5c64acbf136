/** The tier looked at when a key is made, and not when it is changed. */
import type { Mutant } from "./mutant.ts";

export const widensBeyondTheTier: Mutant = {
  name: "widens-beyond-the-tier",
  harm: "a Free organization makes a small key and then asks for everything",
  kills: ["verify/keys-widening-beyond-tier"],
  stage: "verify",
  spoil: (healthy) => ({
    ...healthy,
    keyDecisions: {
      ...healthy.keyDecisions,
      decideUpdate: (org, key, request) =>
        healthy.keyDecisions.decideUpdate({ ...org, tier: org.tier === null ? null : "Pro" }, key, request),
    },
  }),
};
