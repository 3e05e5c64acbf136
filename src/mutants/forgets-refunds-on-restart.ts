/** What was to be refunded is known to the process alone, and it does not wait for it when it is asked to end. */
import type { Mutant } from "./mutant.ts";

export const forgetsRefundsOnRestart: Mutant = {
  name: "forgets-refunds-on-restart",
  harm: "a deploy in the middle of an outage leaves customers charged for calls that were refused",
  kills: ["refused-is-not-charged"],
  stage: "restart-unsettled",
  spoil: (healthy) => ({
    ...healthy,
    refundsSettleOnStop: false,
  }),
};
