/** Which month a mint counts in (items 10, 229): a run may stand on both sides of a month's edge, and clocks differ a little. */

export type MintSeen = { sentMs: number; doneMs: number; admitted: boolean };

const CLOCKS_DIFFER_MS = 5_000;

/** `YYYY-MM`, UTC. */
export const windowOf = (ms: number): string => new Date(ms).toISOString().slice(0, 7);

/** The least that was admitted in each window: a mint at the edge may belong to either, and counts for neither. */
export const admittedByWindow = (mints: readonly MintSeen[]): Map<string, number> => {
  const counts = new Map<string, number>();
  for (const { sentMs, doneMs, admitted } of mints) {
    const [from, to] = [windowOf(sentMs - CLOCKS_DIFFER_MS), windowOf(doneMs + CLOCKS_DIFFER_MS)];
    if (admitted && from === to) counts.set(from, (counts.get(from) ?? 0) + 1);
  }
  return counts;
};

/** Whether all of it surely fell into one month. */
export const inOneWindow = (mints: readonly MintSeen[]): boolean => {
  const names = mints.flatMap(({ sentMs, doneMs }) => [
    windowOf(sentMs - CLOCKS_DIFFER_MS),
    windowOf(doneMs + CLOCKS_DIFFER_MS),
  ]);
  return new Set(names).size <= 1;
};
