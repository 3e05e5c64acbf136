/** A cache without an age. */
import type { Mutant } from "./mutant.ts";

export const trustsAStaleKey: Mutant = {
  name: "trusts-a-stale-key",
  harm: "a stolen key that was revoked goes on working until the next deploy",
  kills: ["revoked-stays-out"],
  stage: "record-changes",
  spoil: (healthy) => ({
    ...healthy,
    keyCache: { ...healthy.keyCache, maxAgeMs: 3_600_000 },
  }),
};
