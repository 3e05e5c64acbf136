/** An organization's tier kept from when it was first seen. */
import type { KeySnapshot, Tier } from "../core/records.ts";
import type { Mutant } from "./mutant.ts";

export const remembersTheOldTier: Mutant = {
  name: "remembers-the-old-tier",
  harm: "a downgrade never arrives, so nobody has a reason to pay",
  kills: ["admission-is-stored-and-tier"],
  stage: "record-changes",
  spoil: (healthy) => ({
    ...healthy,
    keyLink: (keys) => {
      const link = healthy.keyLink(keys);
      const seen = new Map<string, Tier | null>();
      const remembered = (found: KeySnapshot | null): KeySnapshot | null => {
        if (found === null) return null;
        const tier = seen.get(found.org.id) ?? found.org.tier;
        seen.set(found.org.id, tier);
        return { ...found, org: { ...found.org, tier } };
      };
      return {
        bySecretHash: async (hash, budgetMs) => remembered(await link.bySecretHash(hash, budgetMs)),
        byId: async (id, budgetMs) => remembered(await link.byId(id, budgetMs)),
      };
    },
  }),
};
