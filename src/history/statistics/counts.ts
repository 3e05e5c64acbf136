/** Helpers for maps: `add` counts by key, `known` creates a missing value, `byFrequency` groups. */

export const add = <K>(counts: Map<K, number>, key: K, n: number): void => {
  counts.set(key, (counts.get(key) ?? 0) + n);
};

export const known = <K, V>(all: Map<K, V>, key: K, make: () => V): V => {
  const found = all.get(key);
  if (found !== undefined) return found;
  const made = make();
  all.set(key, made);
  return made;
};

/** Groups items by a key, the largest group first. */
export const byFrequency = <K, T>(items: readonly T[], keyOf: (item: T) => K): [K, T[]][] =>
  [...Map.groupBy(items, keyOf)].sort(([, a], [, b]) => b.length - a.length);
