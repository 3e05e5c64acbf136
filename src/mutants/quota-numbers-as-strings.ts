/** Numbers that came as text from a store and left as text. */
import { spoiltRefusals, withBody } from "./answer-surgery.ts";
import type { Mutant } from "./mutant.ts";

export const quotaNumbersAsStrings: Mutant = {
  name: "quota-numbers-as-strings",
  harm: "a client that compares `used` with `limit` compares words, and shows that 9 of 10 is more than 10",
  kills: ["envelope-fits-subcode"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    ...spoiltRefusals(healthy, (answer, { quota }, body) =>
      quota === undefined ? answer : withBody(answer, { ...body, limit: `${quota.limit}`, used: `${quota.used}` }),
    ),
  }),
};
