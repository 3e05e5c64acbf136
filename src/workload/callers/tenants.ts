/** Whose call it is. Load is spread over many organizations, because one organization meets its own caps first. */

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

/** Everyone in turn: the most even load there is, for stories in which nobody may reach an own cap. */
export const inTurn = <T>(items: readonly T[], i: number): T => items[i % items.length] as T;

type MayWeigh = { readonly weight?: number };

/** `null` where nobody states a weight; who states none weighs 1 beside those who do. */
const statedWeights = <T extends MayWeigh>(items: readonly T[]): Weighted<T>[] | null =>
  items.some(({ weight }) => weight !== undefined) ? items.map((item) => ({ item, weight: item.weight ?? 1 })) : null;

/** As many small customers as large ones where the target file states no weights: the k-th is 1/sqrt(k) as busy. */
export const bySize = <T extends MayWeigh>(items: readonly T[]): Weighted<T>[] =>
  statedWeights(items) ?? items.map((item, at) => ({ item, weight: 1 / Math.sqrt(at + 1) }));

/** The same weight for all where the target file states none. */
export const evenly = <T extends MayWeigh>(items: readonly T[]): Weighted<T>[] =>
  statedWeights(items) ?? items.map((item) => ({ item, weight: 1 }));

/** Fractions of multiples of this fall more evenly than those of any other number. */
const GOLDEN = (Math.sqrt(5) - 1) / 2;

/** Whose turn call `i` is: strictly in turn, or by weight, where each has its share to within a few calls. */
export const turnsOf = <T extends MayWeigh>(items: readonly T[]): ((i: number) => T) => {
  const weighted = statedWeights(items);
  if (weighted === null) return (i) => inTurn(items, i);
  const choose = chooserOf(weighted);
  return (i) => choose((i * GOLDEN) % 1);
};

/** The largest part of all calls that falls to one, from 0 to 1, where `of` says who is one. 0 of nobody. */
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
