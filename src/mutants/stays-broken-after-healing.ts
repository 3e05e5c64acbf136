/** A circuit breaker that opens and has no way to close. */
import type { Mutant } from "./mutant.ts";

export const staysBrokenAfterHealing: Mutant = {
  name: "stays-broken-after-healing",
  harm: "a second's fault lasts until somebody restarts the service",
  kills: ["recovers"],
  stage: "limiter-refused",
  spoil: (healthy) => ({
    ...healthy,
    limiterLink: (limiter) => {
      const link = healthy.limiterLink(limiter);
      let broken: Error | undefined;
      return {
        ...link,
        take: async (take, budgetMs) => {
          if (broken !== undefined) throw broken;
          return link.take(take, budgetMs).catch((error: Error) => {
            broken = error;
            throw error;
          });
        },
      };
    },
  }),
};
