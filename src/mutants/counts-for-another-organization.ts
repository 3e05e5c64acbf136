/** Counts labelled with whoever called before. */
import type { Mutant } from "./mutant.ts";

export const countsForAnotherOrganization: Mutant = {
  name: "counts-for-another-organization",
  harm: "the wrong customer is called about a flood that is somebody else's",
  kills: ["counts-agree"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    count: (() => {
      let before = "-";
      return (outcome: string, org: string) => {
        const counted = healthy.count(outcome, before);
        before = org;
        return counted;
      };
    })(),
  }),
};
