/** The flat envelope used for every refusal. */
import { spoiltRefusals, withBody } from "./answer-surgery.ts";
import type { Mutant } from "./mutant.ts";

export const flattensTheDetail: Mutant = {
  name: "flattens-the-detail",
  harm: "clients that read `detail` see an unexplained 403 and log their user out",
  kills: ["envelope-fits-subcode"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    ...spoiltRefusals(healthy, (answer, _, { detail, ...fields }) =>
      detail === undefined ? answer : withBody(answer, { error: detail, ...fields }),
    ),
  }),
};
