/**
 * What a deployment can carry, out of levels past its knee. A system without room to wait is not always full there: of eight
 * slots at twice the knee 9 % of the time is idle (Erlang's loss formula). So the rate that was carried is read as that of a
 * loss system with as many places as were ever taken and as many slots as the calmest calls' time fills.
 */
import { studentT } from "../history/statistics/distributions.ts";
import { type Interval, mean } from "../history/statistics/statistics.ts";
import type { Estimate, LossSystem } from "./curve.ts";

/** What was carried at one level, in calls per second: one figure a batch, all batches equally long. */
export type Carried = { readonly ratePerS: number; readonly batches: readonly number[] };

/** Levels this near above the knee show it: further above, refusals may cost what is carried. */
const LEVELS_MOST = 3;
const REPLICAS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64] as const;
/** Another number of replicas has to explain this much more, in squared standard errors; about one in twenty by chance. */
const BETTER = 4;
/** A standard error below this share of what is carried is not believed. */
const ERROR_MIN = 0.01;
/** Levels between these multiples of the knee tell what chance refuses. */
const NEAR: Interval = { low: 0.6, high: 3.2 };
/** How far the correction for idle slots may be off, as a share of it. */
const MODEL_ERROR = 0.1;
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

type Shape = { readonly most: number; readonly stayS: number; readonly replicas: number };

const systemOf = (perS: number, { most, stayS, replicas }: Shape): LossSystem => {
  const places = Math.min(PLACES_MOST, most);
  return { perS, slots: Math.min(Math.max(replicas, perS * stayS), Math.max(replicas, places)), places, replicas };
};

/** The capacity at which a system of this shape carries what was carried. */
const capacityAt = (shape: Shape, carried: number, ratePerS: number): number => {
  let low = carried;
  let high = 8 * carried;
  for (let halved = 0; halved < 40; halved++) {
    const middle = (low + high) / 2;
    if (carriedPerS(systemOf(middle, shape), ratePerS) < carried) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
};

const fitted = (past: readonly Carried[], shape: Shape): LossSystem => {
  const each = past.map(({ ratePerS, batches }) => capacityAt(shape, mean(batches) ?? 0, ratePerS));
  return systemOf(mean(each) ?? 0, shape);
};

const misfit = (system: LossSystem, levels: readonly Carried[]): number =>
  levels
    .filter(({ ratePerS }) => ratePerS >= NEAR.low * system.perS && ratePerS <= NEAR.high * system.perS)
    .reduce((sum, { ratePerS, batches }) => {
      const carried = mean(batches) ?? 0;
      const error = Math.max(standardError(batches), ERROR_MIN * carried);
      return sum + ((carried - carriedPerS(system, ratePerS)) / error) ** 2;
    }, 0);

export type KneeOfLevels = { readonly knee: Estimate; readonly system: LossSystem };

/**
 * `past`: the levels past the knee, the lowest first; `all`: every level of the same way; `most`: calls admitted and in flight
 * at once, at most; `stayS`: how long the calmest calls took. `replicas`, where they are known.
 */
export const kneeOfLevels = (
  past: readonly Carried[],
  all: readonly Carried[],
  { most, stayS, replicas }: { most: number; stayS: number; replicas?: number },
): KneeOfLevels | null => {
  const shown = past.filter(({ batches }) => batches.length > 1 && (mean(batches) ?? 0) > 0).slice(0, LEVELS_MOST);
  if (shown.length === 0 || most < 1 || !(stayS > 0)) return null;
  const candidates = replicas === undefined ? REPLICAS.filter((n) => n <= most) : [replicas];
  let system = fitted(shown, { most, stayS, replicas: candidates[0] as number });
  let best = misfit(system, all);
  for (const n of candidates.slice(1)) {
    const other = fitted(shown, { most, stayS, replicas: n });
    const off = misfit(other, all);
    if (off + BETTER < best) [system, best] = [other, off];
  }
  let variance = 0;
  let model = 0;
  let freedom = 0;
  for (const { ratePerS, batches } of shown) {
    const carried = mean(batches) ?? 0;
    const idle = system.perS / carriedPerS(system, ratePerS);
    variance += (idle * standardError(batches)) ** 2;
    model += (idle - 1) * MODEL_ERROR * carried;
    freedom += batches.length - 1;
  }
  const half = Math.hypot(studentT(freedom) * Math.sqrt(variance), model) / shown.length;
  const { perS: value } = system;
  return { knee: { value, low: Math.max(0, value - half), high: value + half }, system };
};
