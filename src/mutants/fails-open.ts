/** Better served than refused, when the limiter is away. */
import type { TakeAnswer } from "../platform/limiter.ts";
import type { Mutant } from "./mutant.ts";

export const failsOpen: Mutant = {
  name: "fails-open",
  harm: "whoever can slow the limiter down gets everything for nothing",
  kills: ["fails-closed"],
  stage: "limiter-refused",
  spoil: (healthy) => ({
    ...healthy,
    limiterLink: (limiter) => {
      const link = healthy.limiterLink(limiter);
      return {
        ...link,
        take: (take, budgetMs) =>
          link.take(take, budgetMs).catch((): TakeAnswer => ({ verdict: "taken", used: 0, window: "" })),
      };
    },
  }),
};
