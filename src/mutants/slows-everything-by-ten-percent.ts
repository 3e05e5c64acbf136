/** A little more work in every call. */
import type { Mutant } from "./mutant.ts";

export const slowsEverythingByTenPercent: Mutant = {
  name: "slows-everything-by-ten-percent",
  harm: "a tenth of the machines is bought for nothing, and nobody notices in a single release",
  kills: ["gate/latency_ms_p50"],
  stage: "gate",
  spoil: (healthy) => ({
    ...healthy,
    serviceMs: (drawnMs, n) => healthy.serviceMs(drawnMs, n) * 1.1,
  }),
};
