/** A lifetime of another product's sessions. */
import type { Mutant } from "./mutant.ts";

export const mintsForAnHour: Mutant = {
  name: "mints-for-an-hour",
  harm: "a stolen session token cannot be taken back and works twice as long as was promised",
  kills: ["session-lifetime-is-bounded"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    sessionClaims: (mint) => healthy.sessionClaims(mint, 3_600),
  }),
};
