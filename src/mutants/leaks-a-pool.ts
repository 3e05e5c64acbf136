/** A pool made anew whenever a connection is lost, and the old one left as it is: each new connection has one that nobody closes. */
import type { Mutant } from "./mutant.ts";

export const leaksAPool: Mutant = {
  name: "leaks-a-pool",
  harm: "each outage of a dependency takes connections that never come back, until the service can open no more",
  kills: ["nothing-is-left-open"],
  stage: "pool-after-fault",
  spoil: (healthy) => ({
    ...healthy,
    linkNetwork: (network) => {
      const link = healthy.linkNetwork(network);
      return {
        ...link,
        connect: (at) => {
          const forgotten = link.connect(at);
          forgotten.on("error", () => forgotten.destroy());
          return link.connect(at);
        },
      };
    },
  }),
};
