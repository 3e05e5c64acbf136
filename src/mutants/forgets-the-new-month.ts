/** A window computed once, at the start. */
import type { Mutant } from "./mutant.ts";

export const forgetsTheNewMonth: Mutant = {
  name: "forgets-the-new-month",
  harm: "on the first of the month nobody's allowance is renewed",
  kills: ["admits-what-is-allowed"],
  stage: "month-edge",
  spoil: (healthy) => ({
    ...healthy,
    limiterDecisions: {
      ...healthy.limiterDecisions,
      windowOf: (() => {
        let first: string | undefined;
        return (nowMs: number): string => {
          first ??= healthy.limiterDecisions.windowOf(nowMs);
          return first;
        };
      })(),
    },
  }),
};
