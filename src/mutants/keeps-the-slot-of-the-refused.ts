/** A slot given back by the handler, which refused calls never reach. */
import type { Mutant } from "./mutant.ts";

export const keepsTheSlotOfTheRefused: Mutant = {
  name: "keeps-the-slot-of-the-refused",
  harm: "some hundred bad requests later the replica refuses everybody while it does nothing",
  kills: ["slots-are-given-back"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    slots: {
      ...healthy.slots,
      answering: (call) => {
        const admitted = typeof call.taken === "object" && call.taken.verdict === "taken";
        if (admitted) healthy.slots.answering(call);
      },
    },
  }),
};
