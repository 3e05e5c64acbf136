/** The acknowledgement stored and not asked for. */
import type { Mutant } from "./mutant.ts";

export const vendorWithoutAcknowledgement: Mutant = {
  name: "vendor-without-acknowledgement",
  harm: "keys reach a vendor's data for which nobody has signed",
  kills: ["verify/keys-vendor-needs-acknowledgement"],
  stage: "verify",
  spoil: (healthy) => ({
    ...healthy,
    keyDecisions: {
      ...healthy.keyDecisions,
      decideCreation: (org, liveKeys, request) =>
        healthy.keyDecisions.decideCreation(org, liveKeys, { ...request, acknowledge_vendor: true }),
    },
  }),
};
