/** The name of the one overload for the other. */
import type { Mutant } from "./mutant.ts";

export const swapsTheTwoOverloads: Mutant = {
  name: "swaps-the-two-overloads",
  harm: "a customer is asked to slow down because somebody else was loud",
  kills: ["sheds-only-over-the-cap"],
  stage: "overload",
  spoil: (healthy) => ({
    ...healthy,
    writeRefusal: (refuse) => {
      if (refuse.refuse === "b2b_overloaded") return healthy.writeRefusal({ ...refuse, refuse: "org_overloaded" });
      if (refuse.refuse === "org_overloaded") return healthy.writeRefusal({ ...refuse, refuse: "b2b_overloaded" });
      return healthy.writeRefusal(refuse);
    },
  }),
};
