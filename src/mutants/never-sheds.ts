/** A cap that is configured and not asked. */
import type { Mutant } from "./mutant.ts";

export const neverSheds: Mutant = {
  name: "never-sheds",
  harm: "in a rush everybody waits and nobody is served",
  kills: ["sheds-above-the-cap"],
  stage: "overload",
  spoil: (healthy) => ({
    ...healthy,
    shedder: (caps) => healthy.shedder({ ...caps, globalInFlight: 1_000_000, orgInFlight: 1_000_000 }),
  }),
};
