/** Calls counted by the clock's second. */
import type { Mutant } from "./mutant.ts";

export const doublesAtTheWindowEdge: Mutant = {
  name: "doubles-at-the-window-edge",
  harm: "around each edge twice the limit comes through, which is what the limit was there to prevent",
  kills: ["rate-within-any-window"],
  stage: "rate-edge",
  spoil: (healthy) => ({
    ...healthy,
    limiterDecisions: {
      ...healthy.limiterDecisions,
      // The stored number holds the window and how many calls it has had, three digits' worth.
      takeRate: (stored, nowMs, { perS, burst }) => {
        const second = Math.floor(nowMs / 1000);
        const known = stored ?? 0;
        const had = Math.floor(known / 1000) === second ? known % 1000 : 0;
        if (had >= perS + burst) return { allowed: false, tatMs: known, waitMs: 1000 - (nowMs % 1000) };
        return { allowed: true, tatMs: second * 1000 + had + 1, waitMs: 0 };
      },
    },
  }),
};
