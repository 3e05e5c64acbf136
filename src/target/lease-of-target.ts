/** What a run may spend on the deployment of a target file. */
import { createLease, type LeaseKeeper } from "../workload/lease.ts";
import { leaseOfTarget } from "../workload/stated-lease.ts";
import type { Target } from "./target.ts";

export const keeperOfTarget = (target: Target): LeaseKeeper => createLease(leaseOfTarget(target));
