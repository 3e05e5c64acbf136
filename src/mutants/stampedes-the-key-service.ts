/** Each call asks by itself, however many ask the same. */
import type { Mutant } from "./mutant.ts";

export const stampedesTheKeyService: Mutant = {
  name: "stampedes-the-key-service",
  harm: "the key service comes back from an outage and is knocked over by everybody at once",
  kills: ["recovers"],
  stage: "keys-refused",
  spoil: (healthy) => ({
    ...healthy,
    keyCache: { ...healthy.keyCache, singleFlight: false },
  }),
};
