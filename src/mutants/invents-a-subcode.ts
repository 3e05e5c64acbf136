/** A subcode renamed in passing. */
import { spoiltRefusals, withBody } from "./answer-surgery.ts";
import type { Mutant } from "./mutant.ts";

export const inventsASubcode: Mutant = {
  name: "invents-a-subcode",
  harm: "clients decide on the subcode; one that is in no list is a bug report at every customer's",
  kills: ["envelope-fits-subcode"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    ...spoiltRefusals(healthy, (answer, { refuse }) =>
      refuse === "insufficient_scope" ? withBody(answer, { detail: "missing_scope" }) : answer,
    ),
  }),
};
