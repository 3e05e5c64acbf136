/** Chooses the caller of a call. Load is spread over many organizations, because one alone meets its own caps first. */

export type Weighted<T> = { readonly item: T; readonly weight: number };

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
