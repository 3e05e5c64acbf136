/** A session minted for the first product in the list. */
import type { Mutant } from "./mutant.ts";

export const echoesAnotherProduct: Mutant = {
  name: "echoes-another-product",
  harm: "a page that asked for tiles gets a chat session, and is refused later for a reason nobody sees",
  kills: ["session-lifetime-is-bounded"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    sessionClaims: (mint, lifetimeS) => healthy.sessionClaims({ ...mint, product: "chat" }, lifetimeS),
  }),
};
