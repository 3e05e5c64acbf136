/** One envelope for every error, as an error handler does that does not know the four exceptions. */
import { isFlat, spoiltRefusals, withBody } from "./answer-surgery.ts";
import type { Mutant } from "./mutant.ts";

export const wrapsTheFlatBody: Mutant = {
  name: "wraps-the-flat-body",
  harm: "clients that look for `error` in an overload answer find nothing and retry at full speed",
  kills: ["envelope-fits-subcode"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    ...spoiltRefusals(healthy, (answer, refuse, { error, ...fields }) =>
      isFlat(refuse) ? withBody(answer, { detail: error, ...fields }) : answer,
    ),
  }),
};
