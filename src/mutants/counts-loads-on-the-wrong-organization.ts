/** An organization kept from the call before, as shared state does it. */
import type { Mutant } from "./mutant.ts";

export const countsLoadsOnTheWrongOrganization: Mutant = {
  name: "counts-loads-on-the-wrong-organization",
  harm: "one customer pays for another one's maps",
  kills: ["organizations-do-not-share"],
  stage: "edge-of-quota",
  spoil: (healthy) => ({
    ...healthy,
    limiterLink: (limiter) => {
      const link = healthy.limiterLink(limiter);
      let first: string | undefined;
      return {
        ...link,
        take: (take, budgetMs) => {
          first ??= take.org;
          return link.take({ ...take, org: first }, budgetMs);
        },
      };
    },
  }),
};
