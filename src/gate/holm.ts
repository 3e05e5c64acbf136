/**
 * Several measurements, one verdict: without a correction, three looks at noise would find something three times as often.
 * Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6 (1979).
 */

/** The p-values as they are to be read: below alpha with at most a chance of alpha that any of them is so by accident. */
export const holm = (ps: readonly number[]): number[] => {
  const adjusted: number[] = [];
  let least = 0;
  const ascending = ps.map((p, at) => ({ p, at })).sort((a, b) => a.p - b.p);
  for (const [before, { p, at }] of ascending.entries()) {
    least = Math.max(least, Math.min(1, p * (ps.length - before)));
    adjusted[at] = least;
  }
  return adjusted;
};
