/** What a run may spend on the deployment of a target file: its `budget`, `permits.load_max_rps` and `stop_when`. */
import { createLease, type Lease, type LeaseKeeper } from "../workload/lease.ts";
import type { Target } from "./target.ts";

/** Only what the file states is bounded. */
export const leaseOfTarget = ({ budget = {}, permits = {}, stop_when = {} }: Target): Lease => ({
  ...(budget.requests === undefined ? {} : { requests: budget.requests }),
  ...(budget.map_loads === undefined ? {} : { map_loads: budget.map_loads }),
  ...(budget.analyses === undefined ? {} : { analyses: budget.analyses }),
  ...(budget.stream_seconds === undefined ? {} : { stream_seconds: budget.stream_seconds }),
  ...(permits.load_max_rps === undefined ? {} : { maxPerS: permits.load_max_rps }),
  ...(stop_when.error_rate === undefined ? {} : { stopErrorRate: stop_when.error_rate }),
});

export const keeperOfTarget = (target: Target): LeaseKeeper => createLease(leaseOfTarget(target));
