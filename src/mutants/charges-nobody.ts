/** A meter that is asked and not written. */
import type { Mutant } from "./mutant.ts";

export const chargesNobody: Mutant = {
  name: "charges-nobody",
  harm: "the product is given away, and nobody sees it before the year's books",
  kills: ["refused-is-not-charged", "counts-agree"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    limiterLink: (limiter) => {
      const link = healthy.limiterLink(limiter);
      return { ...link, take: (take, budgetMs) => link.take({ ...take, meter: null }, budgetMs) };
    },
  }),
};
