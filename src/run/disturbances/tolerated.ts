/** A lease under which the refusals that a fault brings about are no errors: `stop_when` is about anything else. */
import { REFUSAL_OF } from "../../chaos/experiments/link-experiment.ts";
import type { LeaseKeeper } from "../../workload/lease.ts";

/** Spends from the same lease. */
export const toleratingRefusals = (lease: LeaseKeeper): LeaseKeeper => ({
  ...lease,
  left: () => ({ ...lease.left(), tolerated: Object.values(REFUSAL_OF) }),
  get stopped() {
    return lease.stopped;
  },
});
