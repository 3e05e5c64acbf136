/** A parser's exception that nobody catches. */
import { spoiltRefusals, withBody } from "./answer-surgery.ts";
import type { Mutant } from "./mutant.ts";

export const answers500OnMalformed: Mutant = {
  name: "answers-500-on-malformed",
  harm: "a typing error in a request looks like an outage and pages somebody at night",
  kills: ["first-failing-check-decides", "envelope-fits-subcode"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    ...spoiltRefusals(healthy, (answer, { refuse }) =>
      refuse === "malformed_body" ? { ...withBody(answer, { detail: "Internal Server Error" }), status: 500 } : answer,
    ),
  }),
};
