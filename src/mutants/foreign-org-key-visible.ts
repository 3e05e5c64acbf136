/** A key looked up by its id alone. */
import type { Mutant } from "./mutant.ts";

export const foreignOrgKeyVisible: Mutant = {
  name: "foreign-org-key-visible",
  harm: "any admin can revoke any customer's keys",
  kills: ["verify/keys-of-another-organization"],
  stage: "verify",
  spoil: (healthy) => ({
    ...healthy,
    keyDecisions: {
      ...healthy.keyDecisions,
      decideRevocation: (org, key) =>
        healthy.keyDecisions.decideRevocation(key === null ? org : { ...org, id: key.org_id }, key),
    },
  }),
};
