/** One call in fifty that waits for a lock. */
import type { Mutant } from "./mutant.ts";

export const slowsTheTail: Mutant = {
  name: "slows-the-tail",
  harm: "the unlucky ones leave; the mean looks as before",
  kills: ["gate/latency_ms_p99"],
  stage: "gate",
  spoil: (healthy) => ({
    ...healthy,
    serviceMs: (drawnMs, n) => healthy.serviceMs(drawnMs, n) * (n % 50 === 49 ? 10 : 1),
  }),
};
