/** A slot given back when an answer ends, and only then. */
import type { Mutant } from "./mutant.ts";

export const keepsTheSlotOfAGoneClient: Mutant = {
  name: "keeps-the-slot-of-a-gone-client",
  harm: "some hundred closed laptops later the replica refuses everybody while it does nothing",
  kills: ["slots-are-given-back"],
  stage: "streams",
  spoil: (healthy) => ({
    ...healthy,
    slots: { ...healthy.slots, clientLeft: () => {} },
  }),
};
