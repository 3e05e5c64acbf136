/** A counter on one path of several. */
import type { Mutant } from "./mutant.ts";

export const countsItselfWrong: Mutant = {
  name: "counts-itself-wrong",
  harm: "the operator's graphs show no malformed calls on the day when every client broke",
  kills: ["counts-agree"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    count: (outcome, org) => (outcome.startsWith("422") ? null : healthy.count(outcome, org)),
  }),
};
