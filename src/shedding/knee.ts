/**
 * Estimates what a deployment can carry from levels past its knee. A system without a queue is not always busy there:
 * eight slots at twice the knee are idle 9 % of the time (Erlang's loss formula). So a loss system is fitted: its
 * places are the most calls ever in flight, its slots those that the carried rate fills at the calm service time.
 */
import { bisect, mean, median, quantileInterval, studentT, Z_95 } from "../history/statistics/statistics.ts";
import type { Estimate, LossSystem } from "./curve.ts";

/**
 * The rate carried at one level, in calls per second; `batches`: the rate in each of its equally long batches.
 * `isQueue`: the calls came out of a queue that was never empty, so no slot was idle.
 */
type Carried = { readonly ratePerS: number; readonly batches: readonly number[]; readonly isQueue: boolean };

/** How many rates above the knee are used, the lowest first: further above, refusals may cost capacity. */
const RATES_MOST = 3;
const REPLICAS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64] as const;
/** A system whose misfit exceeds the best by this much, in squared standard errors, is excluded: one in seventy by chance. */
const EXCLUDED = 6;
/** The smallest standard error that is believed, as a share of what is carried. */
const ERROR_MIN = 0.01;
/** A level that carries at least this share of its offered rate shows no more than what it carried. */
const NEARLY_OFFERED = 0.98;
/** Relative error of the correction for idle slots; with a queue it depends on the distribution of service times. */
const MODEL_ERROR = { loss: 0.2, queue: 0.9 };
const NEARLY_ALL = 0.85;
const PLACES_MOST = 4096;
/** The best of many levels replaces the knee only if it is this many 95 % half-widths above: a maximum is biased. */
const AMONG_MANY = 2;

/**
 * The share of calls that a system of `places`, of which `slots` serve, refuses at `load` times its capacity (M/M/c/K;
 * Kleinrock, "Queueing Systems" I, section 3.6; with as many places as slots it is Erlang's B, which holds for any
 * distribution of service times). The recursion on its inverse neither over- nor underflows to a wrong share.
 */
export const refusedShare = (load: number, slots: number, places: number): number => {
  let inverse = 1;
  for (let n = 1; n <= places; n++) inverse = 1 + (inverse * Math.min(n, slots)) / (load * slots);
  return 1 / inverse;
};

/** The calls per second that a system carries at this offered rate. */
export const carriedPerS = ({ perS, slots, places, replicas }: LossSystem, ratePerS: number): number =>
  ratePerS * (1 - refusedShare(ratePerS / perS, slots / replicas, Math.max(1, Math.round(places / replicas))));

const standardError = (batches: readonly number[]): number => {
  const middle = mean(batches) ?? 0;
  const squares = batches.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  return Math.sqrt(squares / (batches.length - 1) / batches.length);
};

/** The mean of batches with its 95 % interval (Law & Kelton, "Simulation Modeling and Analysis", section 9.5). */
export const batchMean = (batches: readonly number[]): Estimate => {
  const value = mean(batches) ?? 0;
  if (batches.length < 2) return { value, low: 0, high: Number.POSITIVE_INFINITY };
  const half = studentT(batches.length - 1) * standardError(batches);
  return { value, low: Math.max(0, value - half), high: value + half };
};

/** The median with its 95 % interval; `null` where there are too few values. */
export const medianOf = (values: readonly number[]): Estimate | null => {
  const interval = quantileInterval(values, 0.5);
  return interval && { value: median(values) as number, ...interval };
};

export const overlap = (a: Estimate, b: Estimate): boolean => a.low <= b.high && b.low <= a.high;

/** The estimate for which `of` is largest. */
export const worstOf = (all: readonly Estimate[], of: (one: Estimate) => number): Estimate | null =>
  all.reduce<Estimate | null>((worst, one) => (worst === null || of(one) > of(worst) ? one : worst), null);

type Shape = { readonly most: number; readonly stayS: number; readonly replicas: number };

/**
 * The system with as many slots as calls fill, or as many as places if that is nearly the same: measured times are
 * noisy.
 */
const systemOf = (perS: number, { most, stayS, replicas }: Shape): LossSystem => {
  const places = Math.max(replicas, Math.min(PLACES_MOST, most));
  const filled = perS * stayS;
  return { perS, slots: filled >= NEARLY_ALL * places ? places : Math.max(replicas, filled), places, replicas };
};

/** The capacity at which a system of this shape carries the measured rate. */
const capacityAt = (shape: Shape, { batches, ratePerS, isQueue }: Carried): number => {
  const carried = mean(batches) ?? 0;
  if (isQueue || carried >= NEARLY_OFFERED * ratePerS) return carried;
  return carried + bisect(7 * carried, (more) => carriedPerS(systemOf(carried + more, shape), ratePerS) >= carried);
};

const misfit = (system: LossSystem, levels: readonly Carried[]): number =>
  levels
    .filter(({ batches, isQueue }) => !isQueue && batches.length > 1)
    .reduce((sum, { ratePerS, batches }) => {
      const carried = mean(batches) ?? 0;
      const error = Math.max((studentT(batches.length - 1) / Z_95) * standardError(batches), ERROR_MIN * carried);
      return sum + ((carried - carriedPerS(system, ratePerS)) / error) ** 2;
    }, 0);

export type KneeOfLevels = { readonly knee: Estimate; readonly systems: readonly LossSystem[] };

const kneeBy = (system: LossSystem, shown: readonly Carried[]): Estimate => {
  let [variance, model, freedom] = [0, 0, 0];
  const error = system.slots < system.places ? MODEL_ERROR.queue : MODEL_ERROR.loss;
  for (const { ratePerS, batches, isQueue } of shown) {
    const idle = isQueue ? 1 : system.perS / carriedPerS(system, ratePerS);
    variance += (idle * standardError(batches)) ** 2;
    model += (idle - 1) * error * (mean(batches) ?? 0);
    freedom += batches.length - 1;
  }
  const half = Math.hypot(studentT(freedom) * Math.sqrt(variance), model) / shown.length;
  return { value: system.perS, low: Math.max(0, system.perS - half), high: system.perS + half };
};

/**
 * Fits the knee. `past`: the levels past the knee, the lowest first; `all`: every level of the same ways; `most`:
 * the most calls in flight; `stayS`: how long the calmest calls took; `replicas`: their number, if known (unequal
 * replicas behave like a larger number of equal ones). Of the systems that explain the levels, the one with the fewest
 * replicas gives the knee; the others widen its interval.
 */
export const kneeOfLevels = (
  past: readonly Carried[],
  all: readonly Carried[],
  { most, stayS, replicas }: { most: number; stayS: number; replicas?: number },
): KneeOfLevels | null => {
  const usable = past.filter(({ batches }) => batches.length > 1 && (mean(batches) ?? 0) > 0);
  const rates = [...new Set(usable.map(({ ratePerS }) => ratePerS))].slice(0, RATES_MOST);
  const shown = usable.filter(({ ratePerS }) => rates.includes(ratePerS));
  if (past.length === 0 || most < 1 || !(stayS > 0)) return null;
  const estimates = all.flatMap(({ batches }) => (batches.length > 1 ? [batchMean(batches)] : []));
  const best = worstOf(estimates, ({ low }) => low);
  // Past the knee nothing at all is carried, so the level that carried most shows the capacity.
  if (shown.length === 0) return best && best.value > 0 ? { knee: best, systems: [] } : null;
  const candidates = REPLICAS.filter((n) => n <= most && n >= (replicas ?? 1));
  const counts = replicas === 1 || candidates.length === 0 ? [replicas ?? 1] : candidates;
  const fits = counts.map((n) => {
    const shape = { most, stayS, replicas: n };
    const system = systemOf(mean(shown.map((level) => capacityAt(shape, level))) ?? 0, shape);
    return { system, off: misfit(system, all) };
  });
  const least = Math.min(...fits.map(({ off }) => off));
  // Where no system explains the levels well, as with unequal replicas, fewer are excluded.
  const scale = Math.max(1, least / Math.max(1, all.length - 2));
  const systems = fits.filter(({ off }) => off <= least + EXCLUDED * scale).map(({ system }) => system);
  const knees = systems.map((system) => kneeBy(system, shown));
  const knee = {
    value: (knees[0] as Estimate).value,
    low: Math.min(...knees.map(({ low }) => low)),
    high: Math.max(...knees.map(({ high }) => high)),
  };
  if (best === null || best.value - AMONG_MANY * (best.value - best.low) <= knee.value) return { knee, systems };
  // Less was carried past the knee than below it, so the level that carried most shows the capacity.
  return {
    knee: best.low <= knee.high ? { ...best, low: knee.low, high: Math.max(best.high, knee.high) } : best,
    systems: systems.map(({ replicas: n }) => systemOf(best.value, { most, stayS, replicas: n })),
  };
};
