/** No answer taken for `unknown key`. */
import type { Mutant } from "./mutant.ts";

export const answers401WhenKeysAreDown: Mutant = {
  name: "answers-401-when-keys-are-down",
  harm: "customers replace keys that are good, and every replacement fails too",
  kills: ["fails-closed"],
  stage: "keys-refused",
  spoil: (healthy) => ({
    ...healthy,
    keyLink: (keys) => {
      const link = healthy.keyLink(keys);
      return {
        bySecretHash: (hash, budgetMs) => link.bySecretHash(hash, budgetMs).catch(() => null),
        byId: (id, budgetMs) => link.byId(id, budgetMs).catch(() => null),
      };
    },
  }),
};
