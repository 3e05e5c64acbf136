/** A take repeated under a fresh id when its answer was lost. */
import type { Mutant } from "./mutant.ts";

export const chargesTheRetryAgain: Mutant = {
  name: "charges-the-retry-again",
  harm: "each hiccup of the limiter is paid for by whoever called just then",
  kills: ["charged-once"],
  stage: "limiter-reply-lost",
  spoil: (healthy) => ({
    ...healthy,
    limiterLink: (limiter) => {
      const link = healthy.limiterLink(limiter);
      return {
        ...link,
        take: (take, budgetMs) =>
          link.take(take, budgetMs).catch(() => link.take({ ...take, charge_id: `${take.charge_id}-again` }, budgetMs)),
      };
    },
  }),
};
