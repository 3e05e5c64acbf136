/** The meter read, then written, with time in between. */
import type { Mutant } from "./mutant.ts";

/** Long enough for those who called together to meet in it, also on a busy machine. */
const GAP_MS = 100;

export const checksThenChargesWithAGap: Mutant = {
  name: "checks-then-charges-with-a-gap",
  harm: "whoever opens a hundred maps at once gets all of them, whatever the allowance",
  kills: ["admits-at-most-the-allowance"],
  stage: "edge-of-quota",
  spoil: (healthy) => ({
    ...healthy,
    limiterStore: (store) => {
      const spoilt = healthy.limiterStore(store);
      return {
        ...spoilt,
        take: async (takes, at) => {
          const fitting = takes.map(({ org, meter }) => {
            if (meter === null) return true;
            return healthy.limiterDecisions.fits(spoilt.used(org, meter.name, at), meter.amount, meter.cap);
          });
          await new Promise((resolve) => setTimeout(resolve, GAP_MS));
          return spoilt.take(
            takes.map((take, i) =>
              fitting[i] && take.meter !== null ? { ...take, meter: { ...take.meter, cap: null } } : take,
            ),
            at,
          );
        },
      };
    },
  }),
};
