/** Buckets in each replica's own memory. */
import type { Mutant } from "./mutant.ts";

export const limitsPerReplica: Mutant = {
  name: "limits-per-replica",
  harm: "every replica added to the deployment raises everybody's limit",
  kills: ["rate-within-any-window"],
  stage: "two-replicas",
  spoil: (healthy) => ({
    ...healthy,
    limiterLink: (limiter) => {
      const link = healthy.limiterLink(limiter);
      const buckets = new Map<string, number>();
      return {
        ...link,
        take: async (take, budgetMs) => {
          if (take.rate !== null) {
            const taken = healthy.limiterDecisions.takeRate(buckets.get(take.key), performance.now(), take.rate);
            if (!taken.allowed) return { verdict: "rate_limited", wait_ms: taken.waitMs };
            buckets.set(take.key, taken.tatMs);
          }
          return link.take({ ...take, rate: null }, budgetMs);
        },
      };
    },
  }),
};
