/** A key looked up by its id alone. */
import type { Mutant } from "./mutant.ts";

export const foreignOrgKeyVisible: Mutant = {
  name: "foreign-org-key-visible",
  harm: "any admin reads any customer's keys, by asking to change nothing in them",
  kills: ["verify/key-of-another-organization"],
  stage: "verify",
  spoil: (healthy) => ({
    ...healthy,
    keyDecisions: {
      ...healthy.keyDecisions,
      decideUpdate: (org, key, request) =>
        key !== null && key.org_id !== org.id ? key : healthy.keyDecisions.decideUpdate(org, key, request),
    },
  }),
};
