/** The plan's kinds of keys looked at only in the console's form. */
import type { Mutant } from "./mutant.ts";

export const givesServerKeysToFree: Mutant = {
  name: "gives-server-keys-to-free",
  harm: "a Free organization makes a server key by calling the API itself",
  kills: ["verify/keys-free-plan-publishable-only"],
  stage: "verify",
  spoil: (healthy) => ({
    ...healthy,
    keyDecisions: {
      ...healthy.keyDecisions,
      decideCreation: (org, liveKeys, request) =>
        healthy.keyDecisions.decideCreation(
          request.kind === "server" && org.tier === "Free" ? { ...org, tier: "Pro" } : org,
          liveKeys,
          request,
        ),
    },
  }),
};
