/** The deadline of the limiter's answer, longer than stated by more than a busy machine may make of it. */
import type { Mutant } from "./mutant.ts";

const LONGER_MS = 1_500;

export const hangsInsteadOfRefusing: Mutant = {
  name: "hangs-instead-of-refusing",
  harm: "while the limiter is silent every call holds its slot, until the platform refuses everybody",
  kills: ["refuses-in-time"],
  stage: "limiter-reply-lost",
  spoil: (healthy) => ({
    ...healthy,
    limiterLink: (limiter) => {
      const link = healthy.limiterLink(limiter);
      return { ...link, take: (take, budgetMs) => link.take(take, budgetMs + LONGER_MS) };
    },
  }),
};
