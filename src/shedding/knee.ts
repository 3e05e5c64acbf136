/**
 * What a deployment can carry, out of levels past its knee. A system without room to wait is not always full there: of eight
 * slots at twice the knee 9 % of the time is idle (Erlang's loss formula). So the rate that was carried is read as that of a
 * loss system with as many places as were ever taken and as many slots as the calmest calls' time fills.
 */
import { bisect, studentT, Z_95 } from "../history/statistics/distributions.ts";
import { mean } from "../history/statistics/statistics.ts";
import type { Estimate, LossSystem } from "./curve.ts";

/**
 * What was carried at one level, in calls per second: one figure a batch, all batches equally long. `isQueue`: it is what came out
 * of a queue that was never empty, so nothing was idle.
 */
export type Carried = { readonly ratePerS: number; readonly batches: readonly number[]; readonly isQueue: boolean };

/** Levels this near above the knee show it: further above, refusals may cost what is carried. */
const LEVELS_MOST = 3;
const REPLICAS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64] as const;
/** Replicas of fewer slots than this are not thought of. */
const SLOTS_OF_REPLICA = 2;
/** A system that explains this much less than the best, in squared standard errors, is excluded: one in 1,800 by chance. */
const EXCLUDED = 12;
/** Within this the knee may be that of either: one in twenty by chance. */
const AS_LIKELY = 4;
/** A standard error below this share of what is carried is not believed. */
const ERROR_MIN = 0.01;
/** Levels from this multiple of the knee on tell what chance refuses. */
const NEAR = 0.6;
/** What is carried of nearly all that is offered says nothing of what could be. */
const NEARLY_OFFERED = 0.98;
/** How far the correction for idle slots may be off, as a share of it: with room to wait the kind of service times matters. */
const MODEL_ERROR = { loss: 0.2, queue: 0.9 };
const NEARLY_ALL = 0.85;
const PLACES_MOST = 4096;

/**
 * The share of calls refused by `places` of which `slots` serve, when `load` times what all slots complete is offered (M/M/c/K;
 * Kleinrock, "Queueing Systems" I, section 3.6; with as many places as slots Erlang's B, which holds for any distribution
 * of service times). By recursion on its inverse, which neither over- nor underflows to a wrong share.
 */
export const refusedShare = (load: number, slots: number, places: number): number => {
  let inverse = 1;
  for (let n = 1; n <= places; n++) inverse = 1 + (inverse * Math.min(n, slots)) / (load * slots);
  return 1 / inverse;
};

/** Calls per second that a system carries of those offered. */
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

/** The estimate for which `of` is largest. */
export const worstOf = (all: readonly Estimate[], of: (one: Estimate) => number): Estimate | null =>
  all.reduce<Estimate | null>((worst, one) => (worst === null || of(one) > of(worst) ? one : worst), null);

type Shape = { readonly most: number; readonly stayS: number; readonly replicas: number };

/** As many slots as calls fill, or all places where it is nearly that: what calls take at the calmest level scatters. */
const systemOf = (perS: number, { most, stayS, replicas }: Shape): LossSystem => {
  const places = Math.max(replicas, Math.min(PLACES_MOST, most));
  const filled = perS * stayS;
  return { perS, slots: filled >= NEARLY_ALL * places ? places : Math.max(replicas, filled), places, replicas };
};

/** The capacity at which a system of this shape carries what was carried. */
const capacityAt = (shape: Shape, { batches, ratePerS, isQueue }: Carried): number => {
  const carried = mean(batches) ?? 0;
  if (isQueue || carried >= NEARLY_OFFERED * ratePerS) return carried;
  return carried + bisect(7 * carried, (more) => carriedPerS(systemOf(carried + more, shape), ratePerS) >= carried);
};

const misfit = (system: LossSystem, levels: readonly Carried[]): number =>
  levels
    .filter(({ ratePerS, batches, isQueue }) => !isQueue && batches.length > 1 && ratePerS >= NEAR * system.perS)
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
 * `past`: the levels past the knee, the lowest first; `all`: every level of the same way; `most`: calls admitted and in flight
 * at once, at most; `stayS`: how long the calmest calls took. `replicas`, where they are known: several that get unequal parts
 * of the load are like more that get equal ones. Of the systems that explain
 * the levels, the one with the fewest replicas comes first and is the knee's; the others widen its interval.
 */
export const kneeOfLevels = (
  past: readonly Carried[],
  all: readonly Carried[],
  { most, stayS, replicas }: { most: number; stayS: number; replicas?: number },
): KneeOfLevels | null => {
  const shown = past.filter(({ batches }) => batches.length > 1 && (mean(batches) ?? 0) > 0).slice(0, LEVELS_MOST);
  if (shown.length === 0 || most < 1 || !(stayS > 0)) return null;
  const candidates = REPLICAS.filter((n) => (n === 1 || SLOTS_OF_REPLICA * n <= most) && n >= (replicas ?? 1));
  const counts = replicas === 1 || candidates.length === 0 ? [replicas ?? 1] : candidates;
  const fits = counts.map((n) => {
    const shape = { most, stayS, replicas: n };
    const system = systemOf(mean(shown.map((level) => capacityAt(shape, level))) ?? 0, shape);
    return { system, off: misfit(system, all) };
  });
  const least = Math.min(...fits.map(({ off }) => off));
  // Where no system explains the levels well, as of unequal replicas, few are excluded.
  const scale = Math.max(1, least / Math.max(1, all.length - 2));
  const possible = fits.filter(({ off }) => off <= least + EXCLUDED * scale);
  const systems = possible.map(({ system }) => system);
  const knees = possible
    .filter(({ off }, at) => at === 0 || off <= least + AS_LIKELY * scale)
    .map(({ system }) => kneeBy(system, shown));
  const knee = {
    value: (knees[0] as Estimate).value,
    low: Math.min(...knees.map(({ low }) => low)),
    high: Math.max(...knees.map(({ high }) => high)),
  };
  const estimates = all.flatMap(({ batches }) => (batches.length > 1 ? [batchMean(batches)] : []));
  const best = worstOf(estimates, ({ low }) => low);
  if (best === null || best.low <= knee.value) return { knee, systems };
  // Past the knee less is carried than below it: the level that carries most shows what could be.
  const known = { value: best.value, low: best.low, high: Math.max(best.high, knee.high) };
  return {
    knee: best.low <= knee.high ? { ...known, low: knee.low } : { ...known, high: best.high },
    systems: systems.map(({ replicas: n }) => systemOf(best.value, { most, stayS, replicas: n })),
  };
};
