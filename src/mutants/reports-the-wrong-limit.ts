/** The limit taken from the tier's default, not from the organization's record. */
import { spoiltRefusals, withBody } from "./answer-surgery.ts";
import type { Mutant } from "./mutant.ts";

export const reportsTheWrongLimit: Mutant = {
  name: "reports-the-wrong-limit",
  harm: "the customer's own gauge shows that there is plenty left, and the map says no",
  kills: ["admits-at-most-the-allowance"],
  stage: "edge-of-quota",
  spoil: (healthy) => ({
    ...healthy,
    ...spoiltRefusals(healthy, (answer, { quota }, body) =>
      quota === undefined ? answer : withBody(answer, { ...body, limit: 1_000 }),
    ),
  }),
};
