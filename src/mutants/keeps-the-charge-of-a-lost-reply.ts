/** A call refused because the limiter did not answer, and the charge left standing. */
import type { Mutant } from "./mutant.ts";

export const keepsTheChargeOfALostReply: Mutant = {
  name: "keeps-the-charge-of-a-lost-reply",
  harm: "customers pay for refusals, exactly when the service is bad",
  kills: ["refused-is-not-charged", "counts-agree"],
  stage: "limiter-reply-lost",
  spoil: (healthy) => ({
    ...healthy,
    settlement: { refunds: (reason) => reason !== "answer-lost" && healthy.settlement.refunds(reason) },
  }),
};
