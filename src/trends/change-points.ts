/**
 * Finds where the level of a series changes: E-divisive with Student's t, in the form of Hunter and Apache Otava. Sources:
 * Matteson & James, "A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data", JASA 109 (2014);
 * Fleming et al., "Hunter: Using Change Point Detection to Hunt for Performance Regressions", ICPE 2023.
 */
import { mean, studentWithin, sumOf } from "../history/statistics/statistics.ts";

export type Strictness = {
  /** A point counts below this p. It is a score: the split was chosen for its distance, so it is no error rate. */
  pMost: number;
  /** The smallest distance of two levels that counts, in the unit of the series. */
  leastChange: number;
  /** The fewest values on either side of a point. */
  leastEach: number;
  /** The smallest variance that is believed: a few equal values in a row do not show that there is no noise. */
  leastVariance: number;
  /** Whether values that follow each other may be alike without a change, so that they count as fewer. */
  mayBeCorrelated: boolean;
};

/** `at`: the first value of the new level; `before` and `after`: means of the values up to the next points. */
export type ChangePoint = { at: number; p: number; before: number; after: number };

/** The length of a window, of which the next one covers half. */
const WINDOW = 50;
/** How much larger p may be in the first pass, which looks at one window alone. */
const FIRST_PASS = 10;

const squaresOf = (values: readonly number[]): number => sumOf(values.map((x) => x * x));

/**
 * By how much a correlation r of neighbours widens a difference of means: n values count as n (1 - r) / (1 + r). Source:
 * Bayley & Hammersley, "The Effective Number of Independent Observations in an Autocorrelated Time Series", JRSS Suppl. 8 (1946).
 */
const widenedBy = (residuals: readonly number[]): number => {
  const products = residuals.slice(1).map((x, i) => x * (residuals[i] as number));
  // The estimate of n values is too low by about 1/n.
  const lag = Math.min(0.9, sumOf(products) / squaresOf(residuals) + 1 / residuals.length);
  return lag > 0 ? Math.sqrt((1 + lag) / (1 - lag)) : 1;
};

/**
 * Compares both sides of `at` by Student's t. Variances divide by n, as Otava's do, so that the same series has the same
 * points there and here; with few values that makes p smaller than Student's.
 */
const compareAt = (values: readonly number[], [from, at, to]: readonly number[], strictness: Strictness) => {
  const sides = [values.slice(from, at), values.slice(at, to)];
  const [before = 0, after = 0] = sides.map((side) => mean(side) ?? 0);
  const residuals = sides.map((side, i) => side.map((x) => x - (i === 0 ? before : after)));
  const freedom = sumOf(sides.map(({ length }) => length)) - 2;
  const squares = residuals.map((side) => (squaresOf(side) * (side.length - 1)) / side.length);
  const variance = Math.max(strictness.leastVariance, sumOf(squares) / freedom);
  const wide = strictness.mayBeCorrelated && variance > 0 ? widenedBy(residuals.flat()) : 1;
  const t = Math.abs(after - before) / Math.sqrt(variance * sumOf(sides.map(({ length }) => 1 / length))) / wide;
  const p = freedom < 1 || Number.isNaN(t) ? 1 : Math.max(0, 1 - studentWithin(t, freedom));
  return { at: at as number, p, before, after };
};

/** The split of a stretch at which the energy distance of what lies before and after is largest, and that distance. */
const bestSplit = (near: readonly (readonly number[])[], from: number, to: number, leastEach: number) => {
  let best: { at: number; distance: number } | null = null;
  let within = 0;
  for (let at = from + 1; at <= to - leastEach; at += 1) {
    const last = near[at - 1] as readonly number[];
    within += (last[at - 1] as number) - (last[from] as number);
    let [between, beyond] = [0, 0];
    for (let end = at + 1; end <= to && at - from >= leastEach; end += 1) {
      const row = near[end - 1] as readonly number[];
      between += (row[at] as number) - (row[from] as number);
      beyond += (row[end - 1] as number) - (row[at] as number);
      const [n, m] = [at - from, end - at];
      if (m < leastEach) continue;
      const [ownLeft, ownRight] = [n > 1 ? (m * within) / (n - 1) : 0, m > 1 ? (n * beyond) / (m - 1) : 0];
      const distance = (2 / (n + m)) * (between - ownLeft - ownRight);
      if (best === null || distance > best.distance) best = { at, distance };
    }
  }
  return best;
};

const stretches = (points: readonly number[], length: number): [from: number, to: number][] =>
  [...points, length].map((to, i) => [points[i - 1] ?? 0, to]);

/** Splits one window as long as the best split of all its stretches is significant. */
const splitsOf = (values: readonly number[], strictness: Strictness): number[] => {
  /** `near[j][i]`: the sum of the distances of value j from the first i values. */
  const near = values.map((one) => {
    let sum = 0;
    return [0, ...values.map((other) => (sum += Math.abs(other - one)))];
  });
  let points: number[] = [];
  for (;;) {
    const found = stretches(points, values.length).flatMap(([from, to]) => {
      const split = bestSplit(near, from, to, strictness.leastEach);
      return split === null ? [] : [{ ...split, from, to }];
    });
    const [best] = found.toSorted((a, b) => b.distance - a.distance);
    if (best === undefined) return points;
    const { p } = compareAt(values, [best.from, best.at, best.to], strictness);
    if (p > strictness.pMost * FIRST_PASS) return points;
    points = [...points, best.at].sort((a, b) => a - b);
  }
};

/** Returns the points in order. The same series has the same points, because no permutation is drawn. */
export const changePoints = (values: readonly number[], strictness: Strictness): ChangePoint[] => {
  const { pMost, leastChange, leastEach } = strictness;
  const weak = new Set<number>();
  for (let from = 0; from < values.length; ) {
    const found = splitsOf(values.slice(from, from + WINDOW), strictness).map((at) => from + at);
    for (const at of found) weak.add(at);
    from = Math.max(found.at(-1) ?? 0, from + WINDOW / 2);
  }
  let points = [...weak].sort((a, b) => a - b);
  // The weakest point is taken away, and its neighbours are compared anew, until every point is strong.
  for (;;) {
    const ends = stretches(points, values.length);
    const compared = points.map((at, i) => {
      const [from, to] = [(ends[i] as [number, number])[0], (ends[i + 1] as [number, number])[1]];
      const point = compareAt(values, [from, at, to], strictness);
      // Values that lie nearer to the other level, such as one before two accidents, do not hold a level.
      const isBelow = (x: number): boolean => x < (point.before + point.after) / 2 === point.before < point.after;
      const holds = [values.slice(from, at).filter(isBelow), values.slice(at, to).filter((x) => !isBelow(x))];
      return { ...point, isShort: holds.some(({ length }) => length < leastEach) };
    });
    const byP = compared.toSorted((a, b) => b.p - a.p);
    const sizeOf = ({ before, after }: ChangePoint): number => Math.abs(after - before);
    const [smallest] = compared.toSorted((a, b) => sizeOf(a) - sizeOf(b));
    const weakest =
      byP.find(({ isShort }) => isShort) ??
      byP.find(({ p }) => p >= pMost) ??
      (smallest !== undefined && sizeOf(smallest) <= leastChange ? smallest : undefined);
    if (weakest === undefined) return compared.map(({ isShort: _, ...point }) => point);
    points = points.filter((at) => at !== weakest.at);
  }
};
