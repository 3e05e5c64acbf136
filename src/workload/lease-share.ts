/** A lease divided among processes that share one schedule; together they never pass it. */
import { isOfBudget, type Lease } from "./lease.ts";

const COUNTED = ["requests", "map_loads", "analyses"] as const;

export const leaseShare = (lease: Lease, index: number, of: number): Lease => {
  if (of === 1) return lease;
  const share: { -readonly [unit in keyof Lease]: Lease[unit] } = { ...lease };
  for (const unit of COUNTED) {
    const all = lease[unit];
    // The first ones take what is left over.
    if (all !== undefined) share[unit] = Math.floor(all / of) + (index < all % of ? 1 : 0);
  }
  if (lease.stream_seconds !== undefined) share.stream_seconds = lease.stream_seconds / of;
  if (lease.maxPerS !== undefined) share.maxPerS = lease.maxPerS / of;
  return share;
};

/** Whether a process that stopped for this reason ends the load of the others: a share that is spent does not. */
export const endsAll = (stopped: string | null): boolean => stopped !== null && !isOfBudget(stopped);
