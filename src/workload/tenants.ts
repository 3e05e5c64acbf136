/**
 * Whose call it is. Load is spread over many organizations, because one organization meets its own caps first
 * (interface.md section 2).
 */
import { uniform } from "./random.ts";

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

/** Sizes of customers as they are: the k-th is 1/k as busy as the first. */
export const zipf = <T>(items: readonly T[], exponent = 1): Weighted<T>[] =>
  items.map((item, at) => ({ item, weight: 1 / (at + 1) ** exponent }));

export const chooseWeighted = <T>(choices: readonly Weighted<T>[], seed: number, i: number, salt: number): T =>
  chooserOf(choices)(uniform(seed, i, salt));

/** Everyone in turn: the most even load there is, for stories in which nobody may reach an own cap. */
export const inTurn = <T>(items: readonly T[], i: number): T => items[i % items.length] as T;
