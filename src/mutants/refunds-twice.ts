/** A refund that was confirmed too late, made once more. */
import type { Mutant } from "./mutant.ts";

export const refundsTwice: Mutant = {
  name: "refunds-twice",
  harm: "allowances grow by themselves, and the books never close",
  kills: ["charged-once"],
  stage: "limiter-reply-lost",
  spoil: (healthy) => ({
    ...healthy,
    limiterStore: (store) => {
      const spoilt = healthy.limiterStore(store);
      return {
        ...spoilt,
        ledger: function* (run) {
          for (const line of spoilt.ledger(run)) {
            yield line;
            if (line.kind === "refund") yield line;
          }
        },
        refund: async (refunds, at) => {
          await spoilt.refund(refunds, at);
          for (const { org, meter, amount } of refunds) {
            spoilt.setUsed(org, meter, Math.max(0, spoilt.used(org, meter, at) - amount), at);
          }
        },
      };
    },
  }),
};
