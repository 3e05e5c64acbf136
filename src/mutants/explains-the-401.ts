/** A 401 with a helpful sentence in `detail`. */
import { spoiltRefusals, withBody } from "./answer-surgery.ts";
import type { Mutant } from "./mutant.ts";

export const explainsThe401: Mutant = {
  name: "explains-the-401",
  harm: "who guesses keys learns which of them exist",
  kills: ["envelope-fits-subcode"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    ...spoiltRefusals(healthy, (answer, { refuse }) =>
      refuse === "unauthenticated" ? withBody(answer, { detail: "invalid_api_key" }) : answer,
    ),
  }),
};
