/** How load is shared among callers, and the calls per second that can be admitted, as the target file states or a ramp found; `null` if unknown. */
import { type Caller, runtimeCallers } from "./callers.ts";
import type { LimitsInView, TargetView } from "./target-view.ts";

// Chooses the caller of a call. Load is spread over many organizations, because one alone meets its own caps first.

type Weighted<T> = { readonly item: T; readonly weight: number };

/** A chooser by weight: `choose(u)` for u in [0, 1). Weights are cumulated once. */
export const chooserOf = <T>(choices: readonly Weighted<T>[]): ((u: number) => T) => {
  const edges: number[] = [];
  let sum = 0;
  for (const { weight } of choices) {
    sum += Math.max(0, weight);
    edges.push(sum);
  }
  return (u) => {
    const wanted = u * sum;
    let low = 0;
    let high = edges.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((edges[middle] as number) > wanted) high = middle;
      else low = middle + 1;
    }
    return (choices[low] as Weighted<T>).item;
  };
};

/** Round robin: the most even load, for stories in which no organization may reach its own cap. */
export const inTurn = <T>(items: readonly T[], i: number): T => items[i % items.length] as T;

type MayWeigh = { readonly weight?: number };

/** An item without a weight has 1; `null` if no item states one. */
const statedWeights = <T extends MayWeigh>(items: readonly T[]): Weighted<T>[] | null =>
  items.some(({ weight }) => weight !== undefined) ? items.map((item) => ({ item, weight: item.weight ?? 1 })) : null;

/** The stated weights; without any, unequal customers: the k-th has weight 1/sqrt(k). */
export const bySize = <T extends MayWeigh>(items: readonly T[]): Weighted<T>[] =>
  statedWeights(items) ?? items.map((item, at) => ({ item, weight: 1 / Math.sqrt(at + 1) }));

export const evenly = <T extends MayWeigh>(items: readonly T[]): Weighted<T>[] =>
  statedWeights(items) ?? items.map((item) => ({ item, weight: 1 }));

/** The golden ratio: the fractional parts of its multiples spread most evenly over [0, 1). */
const GOLDEN = (Math.sqrt(5) - 1) / 2;

/** Gives the caller of call `i`: round robin, or by stated weights, each share exact to within a few calls. */
export const turnsOf = <T extends MayWeigh>(items: readonly T[]): ((i: number) => T) => {
  const weighted = statedWeights(items);
  if (weighted === null) return (i) => inTurn(items, i);
  const choose = chooserOf(weighted);
  return (i) => choose((i * GOLDEN) % 1);
};

/** The largest share of the weight in one group, from 0 to 1; `of` names an item's group. 0 for no items. */
export const largestShare = <T>(weighted: readonly Weighted<T>[], of: (item: T) => string): number => {
  const sums = new Map<string, number>();
  let total = 0;
  for (const { item, weight } of weighted) {
    sums.set(of(item), (sums.get(of(item)) ?? 0) + weight);
    total += weight;
  }
  let largest = 0;
  for (const sum of sums.values()) largest = Math.max(largest, sum);
  return total === 0 ? 0 : largest / total;
};

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
type Shares = { readonly org: number; readonly key: number };

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

export const partOf = (ratePerS: number | null, part: number) => (ratePerS === null ? null : part * ratePerS);

export const withinMax = (ratePerS: number, maxPerS: number | undefined): number =>
  Math.min(ratePerS, maxPerS ?? Number.POSITIVE_INFINITY);
