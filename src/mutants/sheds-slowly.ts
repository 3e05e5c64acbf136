/** A refusal that goes the whole way before it is one. */
import type { Mutant } from "./mutant.ts";

const SLOW_MS = 400;

export const shedsSlowly: Mutant = {
  name: "sheds-slowly",
  harm: "saying no costs as much as saying yes, so that shedding saves nothing",
  kills: ["refusals-are-cheap"],
  stage: "overload",
  spoil: (healthy) => ({
    ...healthy,
    writeAnswer: (response, status, headers, body) => {
      if (!body.includes("_overloaded")) return healthy.writeAnswer(response, status, headers, body);
      setTimeout(() => healthy.writeAnswer(response, status, headers, body), SLOW_MS);
    },
  }),
};
