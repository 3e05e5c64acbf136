/** A cap that counts half of what there is. */
import type { Mutant } from "./mutant.ts";

export const shedsTooEarly: Mutant = {
  name: "sheds-too-early",
  harm: "customers are refused while half of the machine is idle",
  kills: ["sheds-only-over-the-cap"],
  stage: "overload",
  spoil: (healthy) => ({
    ...healthy,
    shedder: (caps) => healthy.shedder({ ...caps, globalInFlight: Math.ceil(caps.globalInFlight / 2) }),
  }),
};
