/** The calls per second that can be admitted, as the target file states or a ramp found; `null` if unknown. */
import { type Caller, runtimeCallers } from "./callers.ts";
import type { LimitsInView, TargetView } from "./target-view.ts";
import { evenly, largestShare, type Weighted } from "./tenants.ts";

/** Streams per second that the whole deployment can carry, from its stated limits (Little's law); `null` if unknown. */
export const capacityPerS = (limits: LimitsInView): number | null => {
  const slots = limits.slots ?? limits.global_in_flight;
  if (slots === undefined || limits.service_ms === undefined || limits.service_ms <= 0) return null;
  return ((limits.replicas ?? 1) * slots * 1000) / limits.service_ms;
};

/** Caps on calls in flight in all replicas together: of all callers, and of one organization; absent: not stated. */
export const inFlightCaps = ({ limits }: TargetView): { all?: number; org?: number } => {
  const replicas = limits.replicas ?? 1;
  const all = limits.global_in_flight ?? limits.slots;
  const org = limits.org_in_flight;
  return { all: all && all * replicas, org: org && org * replicas };
};

/** The largest shares of the calls that one organization makes, and that one key makes. */
export type Shares = { readonly org: number; readonly key: number };

export const sharesOf = (weighted: readonly Weighted<Caller>[]): Shares => ({
  org: largestShare(weighted, ({ org }) => org),
  key: largestShare(weighted, ({ name, kind }) => `${kind} ${name}`),
});

const byKeyRate = ({ limits }: TargetView, { key }: Shares): number | null =>
  limits.rate_per_s === undefined || key === 0 ? null : limits.rate_per_s / key;

/** Streams per second of these callers, as a ramp found, else the lowest stated bound; `null` if unknown. */
export const chatPerS = (view: TargetView, shares: Shares): number | null => {
  const found = view.capacity?.chat?.perS;
  if (found !== undefined) return found;
  const capacity = capacityPerS(view.limits);
  if (capacity === null) return null;
  const { org } = inFlightCaps(view);
  const unbounded = Number.POSITIVE_INFINITY;
  const { service_ms: serviceMs = unbounded } = view.limits;
  const byOrganization = org === undefined || shares.org === 0 ? unbounded : (org * 1000) / (serviceMs * shares.org);
  return Math.min(capacity, byOrganization, byKeyRate(view, shares) ?? unbounded);
};

/** Cheap calls per second of these callers that can be admitted, by the rate of their keys; `null` if unknown. */
export const readsPerS = (view: TargetView, callers: readonly Caller[]): number | null => {
  const stated = byKeyRate(view, sharesOf(evenly(callers)));
  if (stated !== null) return stated;
  const found = view.capacity?.reads?.perS;
  // The ramp was played by all runtime callers; fewer callers get the same rate per key.
  const played = runtimeCallers(view).length;
  return found === undefined || played === 0 ? null : (found * Math.min(callers.length, played)) / played;
};

export const partOf = (ratePerS: number | null, part: number): number | null =>
  ratePerS === null ? null : part * ratePerS;

export const withinMax = (ratePerS: number, maxPerS: number | undefined): number =>
  Math.min(ratePerS, maxPerS ?? Number.POSITIVE_INFINITY);
