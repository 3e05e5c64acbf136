/**
 * The posterior of the rate at which a share of bad calls reaches its limit, from all probes together. Near the limit
 * the logit of the share is taken as linear in the logarithm of the rate, and the rate at the limit and the slope are
 * weighed on a grid with a uniform prior, so undecided probes count as well.
 */
import * as probing from "./probe.ts";

/** Weights over `logRates` (natural logarithms of calls per second, ascending), summing to 1. */
type Posterior = { readonly logRates: readonly number[]; readonly weights: readonly number[] };

type Point = probing.Tally & { logRate: number };

const NO_WEIGHT = 1e-3;

const STEP = 0.01;
/** Slopes from a share that grows as the square of the rate to one that jumps within a percent. */
const SLOPES: readonly number[] = Array.from({ length: 16 }, (_, i) => 2 * Math.exp((i * Math.log(150)) / 15));
/** Probes at this distance from the answer, in logarithms, weigh e^-1/2: the line is straight only nearby. */
const REACH = 0.3;
/** The answer depends on which probes are near it, so both are iterated; a few passes suffice. */
const PASSES = 3;

const normalized = (weights: readonly number[]): number[] => {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
};

const logShare = (logit: number) => (logit > 0 ? -Math.log1p(Math.exp(-logit)) : logit - Math.log1p(Math.exp(logit)));

const weigh = (points: readonly Point[], counts: readonly number[], limitLogit: number, grid: readonly number[]) => {
  const near = points.flatMap(({ logRate, bad, n }, i) => {
    const count = counts[i] as number;
    return count < NO_WEIGHT ? [] : [{ logRate, bad: count * bad, good: count * (n - bad) }];
  });
  const logLikelihood = (at: number, slope: number): number =>
    near.reduce((sum, { logRate, bad, good }) => {
      const logit = limitLogit + slope * (logRate - at);
      const log = logShare(logit);
      // For good calls log(1 - p) = log p - logit.
      return sum + (bad * log + good * (log - logit));
    }, 0);
  const logs = grid.map((at) => SLOPES.map((slope) => logLikelihood(at, slope)));
  const top = Math.max(...logs.flat());
  const best = logs.findIndex((row) => row.includes(top));
  return {
    weights: normalized(logs.map((row) => row.reduce((sum, log) => sum + Math.exp(log - top), 0))),
    best: { logRate: grid[best] as number, slope: SLOPES[logs[best]?.indexOf(top) ?? 0] as number },
  };
};

/** Pearson's chi-square of the probes about the line, over its degrees of freedom: about 1 for independent calls. */
const misfit = (
  points: readonly Point[],
  counts: readonly number[],
  limitLogit: number,
  { best }: ReturnType<typeof weigh>,
): number => {
  let chiSquare = 0;
  let freedom = -2;
  for (const [i, { logRate, bad, n }] of points.entries()) {
    const share = Math.exp(logShare(limitLogit + best.slope * (logRate - best.logRate)));
    const expected = n * share;
    if (expected < 1 || n - expected < 1) continue;
    chiSquare += (counts[i] as number) * ((bad - expected) ** 2 / (expected * (1 - share)));
    freedom += counts[i] as number;
  }
  return freedom < 1 ? 1 : chiSquare / freedom;
};

export const quantileOf = ({ logRates, weights }: Posterior, p: number): number => {
  let sum = 0;
  for (const [i, weight] of weights.entries()) {
    sum += weight;
    if (sum >= p) return Math.exp((logRates[i] as number) - STEP * Math.min(1, (sum - p) / weight) + STEP / 2);
  }
  return Math.exp(logRates.at(-1) as number);
};

/**
 * Drops the weights below a rate that is surely met and above one that is surely broken: the answer lies between,
 * whatever the line says. So a share that jumps, which no line follows, has its answer between two probes.
 */
const between = (
  points: readonly Point[],
  limit: number,
  dispersion: number,
  logRates: readonly number[],
  weights: readonly number[],
): number[] => {
  const ratesOf = (wanted: probing.ProbeVerdict): number[] =>
    points.flatMap((point) =>
      probing.judgeShare(point, limit, dispersion, probing.SURE) === wanted ? [point.logRate] : [],
    );
  const [met, broken] = [Math.max(...ratesOf("met")), Math.min(...ratesOf("broken"))];
  if (met >= broken) return [...weights];
  const isIn = (at: number): boolean => at > met - STEP && at < broken + STEP;
  const inside = weights.map((weight, i) => (isIn(logRates[i] as number) ? weight : 0));
  if (inside.reduce((sum, weight) => sum + weight, 0) > 1e-3) return normalized(inside);
  const count = logRates.filter(isIn).length;
  return logRates.map((at) => (isIn(at) ? 1 / count : 0));
};

const firstGuess = (points: readonly Point[], limit: number): number => {
  const above = points.filter(({ bad, n }) => bad > n * limit).map(({ logRate }) => logRate);
  const lowest = above.length > 0 ? Math.min(...above) : Math.max(...points.map(({ logRate }) => logRate));
  const below = points.flatMap(({ logRate }) => (logRate < lowest ? [logRate] : []));
  return below.length > 0 ? (lowest + Math.max(...below)) / 2 : lowest;
};

/** `range`: rates between which the answer lies, in calls per second. `of`: index of the objective. */
export const thresholdOf = (
  results: readonly probing.ProbeResult[],
  of: number,
  limit: number,
  range: { low: number; high: number },
): Posterior => {
  const tallies = results.map(({ tallies }) => tallies[of] as probing.ObjectiveTally);
  const points = results.map((result, i): Point => {
    return { ...(tallies[i] as probing.ObjectiveTally), logRate: Math.log(probing.offeredPerS(result)) };
  });
  const p = probing.judgedLimit(limit);
  const limitLogit = Math.log(p / (1 - p));
  const steps = Math.ceil(Math.log(range.high / range.low) / STEP) + 1;
  const logRates = Array.from({ length: steps }, (_, i) => Math.log(range.low) + i * STEP);
  const within = probing.dispersionOf(tallies);
  let centre = firstGuess(points, p);
  let dispersion = within;
  let weights: number[] = [];
  for (let pass = 0; pass < PASSES; pass++) {
    const nearness = points.map(({ logRate }) => Math.exp(-0.5 * ((logRate - centre) / REACH) ** 2));
    const counts = nearness.map((near) => near / dispersion);
    const fitted = weigh(points, counts, limitLogit, logRates);
    weights = between(points, p, within, logRates, fitted.weights);
    centre = Math.log(quantileOf({ logRates, weights }, 0.5));
    dispersion = Math.max(within, misfit(points, nearness, limitLogit, fitted));
  }
  return { logRates, weights };
};

/** The posterior of the lowest of several thresholds on one grid, taken as independent. */
export const lowestOf = (thresholds: readonly Posterior[]): Posterior => {
  const logRates = (thresholds[0] as Posterior).logRates;
  const above = thresholds.map(() => 1);
  let before = 1;
  const weights = logRates.map((_, i) => {
    let product = 1;
    for (const [j, { weights: of }] of thresholds.entries()) {
      above[j] = Math.max(0, (above[j] as number) - (of[i] as number));
      product *= above[j] as number;
    }
    const weight = Math.max(0, before - product);
    before = product;
    return weight;
  });
  return { logRates, weights: normalized(weights) };
};

export const dispersionsOf = (results: readonly probing.ProbeResult[], objectives: number): number[] =>
  Array.from({ length: objectives }, (_, of) =>
    probing.dispersionOf(results.flatMap(({ tallies }) => tallies[of] ?? [])),
  );
