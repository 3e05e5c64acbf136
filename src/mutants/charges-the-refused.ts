/** Charged first, the cap looked at afterwards. */
import type { Mutant } from "./mutant.ts";

export const chargesTheRefused: Mutant = {
  name: "charges-the-refused",
  harm: "whoever is refused for the allowance pays for each attempt",
  kills: ["refused-is-not-charged"],
  stage: "edge-of-quota",
  spoil: (healthy) => ({
    ...healthy,
    limiterStore: (store) => {
      const spoilt = healthy.limiterStore(store);
      return {
        ...spoilt,
        take: async (takes, at) => {
          const answers = await spoilt.take(takes, at);
          const over = takes.filter(({ meter }, i) => meter !== null && answers[i]?.verdict === "over_cap");
          if (over.length > 0) {
            await spoilt.take(
              over.map((take) => ({ ...take, rate: null, meter: take.meter && { ...take.meter, cap: null } })),
              at,
            );
          }
          return answers;
        },
      };
    },
  }),
};
