/** `Retry-After` lost in a proxy, or never written. */
import { spoiltRefusals, withoutHeader } from "./answer-surgery.ts";
import type { Mutant } from "./mutant.ts";

export const hidesRetryAfter: Mutant = {
  name: "hides-retry-after",
  harm: "clients that would have waited come back at once, all together",
  kills: ["tells-when-to-retry"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    ...spoiltRefusals(healthy, (answer) => withoutHeader(answer, "Retry-After")),
  }),
};
