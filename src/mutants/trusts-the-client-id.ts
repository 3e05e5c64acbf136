/** The client's request id taken for the charge's. */
import type { Mutant } from "./mutant.ts";

export const trustsTheClientId: Mutant = {
  name: "trusts-the-client-id",
  harm: "a client that always sends the same id is charged once and served for ever",
  kills: ["admits-at-most-the-allowance"],
  stage: "edge-of-quota",
  spoil: (healthy) => ({
    ...healthy,
    chargeId: (_fresh, requestId) => requestId,
  }),
};
