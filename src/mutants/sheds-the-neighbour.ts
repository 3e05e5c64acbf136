/** One counter for all organizations. */
import type { Mutant } from "./mutant.ts";

export const shedsTheNeighbour: Mutant = {
  name: "sheds-the-neighbour",
  harm: "one customer's rush turns away everybody else's users",
  kills: ["organizations-do-not-share"],
  stage: "noisy",
  spoil: (healthy) => ({
    ...healthy,
    shedder: (caps) => {
      const shedder = healthy.shedder(caps);
      return {
        ...shedder,
        enterOrganization: (_org, cap) => shedder.enterOrganization("everybody", cap),
        leaveOrganization: () => shedder.leaveOrganization("everybody"),
      };
    },
  }),
};
