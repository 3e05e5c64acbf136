/** The last known record used for as long as the key service is away. */
import type { KeySnapshot } from "../core/records.ts";
import type { Mutant } from "./mutant.ts";

export const servesStaleWhenKeysAreDown: Mutant = {
  name: "serves-stale-when-keys-are-down",
  harm: "who can keep the key service busy can use a revoked key",
  kills: ["fails-closed"],
  stage: "keys-refused",
  spoil: (healthy) => ({
    ...healthy,
    keyLink: (keys) => {
      const link = healthy.keyLink(keys);
      const last = new Map<string, KeySnapshot>();
      const orLast = async (name: string, asked: Promise<KeySnapshot | null>): Promise<KeySnapshot | null> => {
        try {
          const found = await asked;
          if (found !== null) last.set(name, found);
          return found;
        } catch (error) {
          const known = last.get(name);
          if (known === undefined) throw error;
          return known;
        }
      };
      return {
        bySecretHash: (hash, budgetMs) => orLast(hash, link.bySecretHash(hash, budgetMs)),
        byId: (id, budgetMs) => orLast(id, link.byId(id, budgetMs)),
      };
    },
  }),
};
