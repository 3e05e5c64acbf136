/** The binomial distribution, by sums of terms relative to the largest one, so that no factorial is needed and n may be in the millions. */

/** Terms this far below the largest one no longer change a sum of doubles. */
const NEGLIGIBLE = 1e-20;

type Terms = { first: number; terms: number[]; total: number };

const termsOf = (n: number, p: number): Terms => {
  const mode = Math.min(n, Math.floor((n + 1) * p));
  const odds = p / (1 - p);
  const below: number[] = [];
  for (let k = mode, term = 1; k > 0; k--) {
    term *= k / ((n - k + 1) * odds);
    if (term < NEGLIGIBLE) break;
    below.push(term);
  }
  const above: number[] = [];
  for (let k = mode, term = 1; k < n; k++) {
    term *= ((n - k) * odds) / (k + 1);
    if (term < NEGLIGIBLE) break;
    above.push(term);
  }
  const terms = [...below.reverse(), 1, ...above];
  return { first: mode - below.length, terms, total: terms.reduce((sum, term) => sum + term, 0) };
};

/** The smallest k with P(Bin(n, p) <= k) >= each of `shares`, which ascend. */
export const binomialQuantiles = (n: number, p: number, shares: readonly number[]): number[] => {
  const { first, terms, total } = termsOf(n, p);
  return shares.map((share) => {
    let sum = 0;
    for (const [i, term] of terms.entries()) {
      sum += term;
      if (sum >= share * total) return first + i;
    }
    return n;
  });
};

/** P(Bin(n, p) <= k). */
export const shareBelow = (n: number, p: number, k: number): number => {
  if (k >= n) return 1;
  const { first, terms, total } = termsOf(n, p);
  let sum = 0;
  for (const term of terms.slice(0, Math.max(0, k - first + 1))) sum += term;
  return sum / total;
};
