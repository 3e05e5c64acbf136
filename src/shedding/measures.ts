/**
 * The measures of a curve, each with its 95 % interval. A figure at a multiple of the knee is interpolated between the
 * two levels around it; it is absent if no level reaches that rate.
 */
import type { Measurement } from "../history/run-document.ts";
import { exactInterval, fairnessIndex, median, quantileInterval, studentT } from "../history/statistics/statistics.ts";
import type { Curve, CurveLevel, Estimate, LossSystem, Pass } from "./curve.ts";
import { carriedPerS, overlap, worstOf } from "./knee.ts";

/** A level counts as played from this share of its planned calls on, less `CHANCE` standard deviations (Poisson). */
const PLAYED_SHARE = 0.9;
const CHANCE = 4;

/** Reports whether a level was offered as planned, and not ended early by a budget or a signal. */
const isPlayed = ({ ratePerS, judgedS, offered }: CurveLevel): boolean =>
  offered >= PLAYED_SHARE * ratePerS * judgedS - CHANCE * Math.sqrt(ratePerS * judgedS);

/** The played levels of one pass, the lowest rate first. */
export const wayOf = ({ levels }: Curve, pass: Pass): CurveLevel[] =>
  levels.filter((level) => level.pass === pass && isPlayed(level)).sort((a, b) => a.ratePerS - b.ratePerS);

export const total = <T>(all: readonly T[], of: (one: T) => number): number =>
  all.reduce((sum, one) => sum + of(one), 0);

const halfOf = ({ value, high }: Estimate): number => high - value;

const within = (value: number, half: number): Estimate => {
  return { value, low: Math.max(0, value - half), high: value + half };
};

/** The mean of independent estimates. */
const meanOf = (all: readonly Estimate[]): Estimate =>
  within(total(all, ({ value }) => value) / all.length, Math.hypot(...all.map(halfOf)) / all.length);

/** Goodput at a level on the way up, averaged with later levels of the same rate whose intervals overlap it. */
const goodputOf =
  ({ levels }: Curve) =>
  ({ ratePerS, goodputPerS: one }: CurveLevel): Estimate => {
    const same = levels.filter((level) => level.ratePerS === ratePerS && isPlayed(level));
    return meanOf(same.map(({ goodputPerS }) => goodputPerS).filter((other) => overlap(other, one)));
  };

/** Interpolates a figure of levels at a rate; the last level serves rates of which it reaches 90 %. */
const at = (levels: readonly CurveLevel[], ratePerS: number, of: (level: CurveLevel) => Estimate): Estimate | null => {
  const above = levels.findIndex((level) => level.ratePerS >= ratePerS);
  const upper = levels[above];
  const last = levels.at(-1);
  if (upper === undefined) return last !== undefined && last.ratePerS >= 0.9 * ratePerS ? of(last) : null;
  const lower = levels[above - 1] ?? upper;
  const share = upper === lower ? 0 : (ratePerS - lower.ratePerS) / (upper.ratePerS - lower.ratePerS);
  const [one, other] = [of(lower), of(upper)];
  const half = Math.hypot((1 - share) * halfOf(one), share * halfOf(other));
  return within(one.value + (other.value - one.value) * share, half);
};

export const over = (a: Estimate, b: Estimate): Estimate => {
  const value = a.value / b.value;
  return within(value, value * Math.hypot(halfOf(a) / Math.max(a.value, 1e-9), halfOf(b) / b.value));
};

/** The largest goodput: the mean of the levels that may have it, because the maximum of noisy values is biased upwards. */
export const largestGoodput = (levels: readonly CurveLevel[]): Estimate | null => {
  const all = levels.map(({ goodputPerS }) => goodputPerS);
  const most = worstOf(all, ({ value }) => value);
  return most === null || most.value === 0 ? null : meanOf(all.filter((one) => overlap(one, most)));
};

/** Goodput at a multiple of the knee, divided by the largest goodput of any level; `null` if no level reaches the multiple. */
export const retentionAt = (curve: Curve, times: number): Estimate | null => {
  const ratePerS = times * (curve.knee.overall?.value ?? 0);
  if (ratePerS === 0) return null;
  const goodput = at(wayOf(curve, "up"), ratePerS, goodputOf(curve));
  const largest = largestGoodput(curve.levels.filter(isPlayed));
  return goodput && largest ? over(goodput, largest) : null;
};

/** The loss system of the stated slots, with the service time of the calmest level; `null` if none are stated. */
export const statedSystem = ({ closedForm, serviceMs }: Curve): LossSystem | null => {
  if (closedForm === null) return null;
  const slots = closedForm.slots * closedForm.replicas;
  return { perS: (slots * 1000) / serviceMs, slots, places: slots, replicas: closedForm.replicas };
};

/** What the worst level on the way up carries of what the stated system carries at its rate; `null` if none is stated. */
export const ofClosedForm = (curve: Curve): Estimate | null => {
  const system = statedSystem(curve);
  if (system === null) return null;
  const shares = wayOf(curve, "up").map(({ ratePerS, goodputPerS: { value, low, high } }): Estimate => {
    const due = carriedPerS(system, ratePerS);
    return { value: value / due, low: low / due, high: high / due };
  });
  return worstOf(shares, ({ high }) => -high);
};

/** The loss systems that explain the levels, and the stated one. */
export const systemsOf = (curve: Curve): LossSystem[] => [...curve.models, ...[statedSystem(curve) ?? []].flat()];

/** The retention of an ideal loss system, which refuses only when all places are taken: few slots allow no more. */
export const retentionByChance = (curve: Curve, times: number): number => {
  const each = systemsOf(curve).map((system) => {
    const most = Math.max(...curve.levels.map(({ ratePerS }) => carriedPerS(system, ratePerS)));
    return carriedPerS(system, times * system.perS) / most;
  });
  return Math.min(1, ...each);
};

/** The share shed over some levels; its interval is at least as wide as the exact binomial one. */
export const shedOver = (levels: readonly CurveLevel[]): (Estimate & { n: number }) | null => {
  const n = total(levels, ({ offered }) => offered);
  if (n === 0) return null;
  const value = total(levels, ({ shedShare, offered }) => shedShare.value * offered) / n;
  const half = Math.hypot(...levels.map(({ shedShare, offered }) => (halfOf(shedShare) * offered) / n));
  const exact = exactInterval(Math.round(value * n), n) ?? { low: 0, high: 1 };
  return { value, low: Math.max(0, Math.min(exact.low, value - half)), high: Math.max(exact.high, value + half), n };
};

/** A level planned at a multiple of the expected knee may lie this many times higher relative to the measured knee. */
const NEARLY = 1.1;

/** Between the value and the lower end, because the largest of noisy values is biased upwards. */
const middleOf = ({ value, low }: Estimate): number => (value + low) / 2;

/**
 * The played levels at up to a multiple of what can be carried: before the overload for the way up, after it for the others,
 * and the larger of both for all where the capacity has not moved. That is the knee, or a goodput that exceeds it, because
 * early sheds make the measured knee too low.
 */
export const levelsBelow = (curve: Curve, times: number): CurveLevel[] => {
  const { before, after } = curve.knee;
  const played = Object.values(Object.groupBy(curve.levels.filter(isPlayed), ({ pass }) => String(pass === "up")));
  const ways = played.map((way = []) => {
    const knee = way[0]?.pass === "up" ? (before ?? after) : (after ?? before);
    return { way, mostPerS: knee && Math.max(knee.value, ...way.map(({ goodputPerS }) => middleOf(goodputPerS))) };
  });
  const largest = moveOf(curve) === null ? Math.max(...ways.map(({ mostPerS }) => mostPerS ?? 0)) : 0;
  return ways.flatMap(({ way, mostPerS }) =>
    way.filter(({ ratePerS }) => ratePerS <= NEARLY * times * Math.max(mostPerS ?? 0, largest)),
  );
};

/**
 * A limit on calls in flight refuses hardly any call while it admits a neighbour beside more of them. From this share of
 * the refused calls on, something else refuses.
 */
const WITH_ROOM = 0.25;

/** Reports whether so many calls are refused beside free places that no limit, even one that is low for a while, explains it. */
export const excludesLimit = (levels: readonly CurveLevel[]): boolean => {
  const free = levels.flatMap(({ room }) => room?.free ?? []);
  const [shed, withRoom] = [total(free, (one) => one.shed), total(free, (one) => one.withRoom)];
  return shed > 0 && withRoom >= WITH_ROOM * shed;
};

/** What calls found that were sent while many places were free, or most of them taken; `share`: of them that were shed. */
const besideAt = (levels: readonly CurveLevel[], of: "free" | "taken") => {
  const parts = levels.flatMap(({ room }) => room?.[of] ?? []);
  const [calls, shed] = [total(parts, (one) => one.calls), total(parts, (one) => one.shed)];
  const inFlight = total(parts, (one) => one.calls * one.inFlight) / Math.max(1, calls);
  return { inFlight, value: shed / calls, share: exactInterval(shed, calls) };
};

/**
 * Calls that are spread blindly over replicas meet a full one while another has places: past the knee this refuses more than
 * this share of the calls that find a quarter of the places free or fewer (11 % by Erlang's formula, of two replicas with
 * 64 slots at 1.2 times the knee; the more load, the more). Where less is refused, replicas explain no shed.
 */
const SPREAD = 0.1;

/** Reports whether the last free places certainly do not decide which calls past the knee are shed. */
export const isSpread = (curve: Curve): boolean => (besideAt(pastKnee(curve), "taken").share?.low ?? 0) > SPREAD;

/** The largest share that systems refuse which have `slotsLeast` slots a replica, or the stated number of replicas. */
export const chanceSheds = (curve: Curve, ratePerS: number, slotsLeast = 0): number => {
  const known = curve.closedForm?.replicas ?? 1;
  const { share } = besideAt(pastKnee(curve), "taken");
  const isOnePool = (share?.high ?? 1) < SPREAD && excludesLimit(levelsBelow(curve, 0.5));
  const systems = systemsOf(curve).flatMap((system) => {
    if (isOnePool) return { ...system, replicas: 1 };
    return system.replicas === known || system.slots >= slotsLeast * system.replicas ? system : [];
  });
  return Math.max(0, ...systems.map((system) => 1 - carriedPerS(system, ratePerS) / ratePerS));
};

/**
 * Reports whether calls are certainly shed for another reason than full replicas or a limit that is low for a while. Among
 * equal replicas the share shed rises at least in proportion to the calls in flight, because the more calls they hold
 * together, the more often one of them is full. If more is shed than that while many places are free, it has another cause.
 * The interval of the difference is that of Newcombe ("Interval estimation for the difference between independent
 * proportions", Statistics in Medicine 17, 1998, method 10).
 */
export const shedsWithRoom = (curve: Curve): boolean => {
  const taken = besideAt(curve.levels.filter(isPlayed), "taken");
  // The lowest levels show the contrast best, more of them have more calls.
  return [0.5, 0.7].some((times) => {
    const levels = levelsBelow(curve, times);
    const free = besideAt(levels, "free");
    if (free.share === null || taken.share === null || !excludesLimit(levels)) return false;
    const inPart = free.inFlight / taken.inFlight;
    const half = Math.hypot(free.value - free.share.low, inPart * (taken.share.high - taken.value));
    return free.value - inPart * taken.value > half;
  });
};

/** Knees that differ by at most this share count as unmoved. */
const MOVED = 0.1;

export type Pair = [up: CurveLevel, later: CurveLevel];

/** Pairs of levels at the same rate, one on the way up and one of a later pass. */
export const pairsWith = (curve: Curve, pass: Pass): Pair[] =>
  wayOf(curve, "up").flatMap((up): Pair[] => {
    const later = wayOf(curve, pass).find(({ ratePerS }) => ratePerS === up.ratePerS);
    return later === undefined ? [] : [[up, later]];
  });

/** A level that served this share of its calls well shows no bound of the capacity. */
const FULLY = 0.95;

/** Most of what a level serves comes late, out of a queue. */
const isQueue = ({ late, good }: CurveLevel): boolean => late > good;

/**
 * What shows that the capacity moved: more was carried on the way down than up, `after` differs from `up` at the same
 * rate, or the knees differ; else `null`. Levels of mostly late answers do not count: each has its own queue.
 */
export const moveOf = (curve: Curve): Pair | "knee" | null => {
  const { before, after } = curve.knee;
  const more = pairsWith(curve, "down").find(
    ([up, down]) => down.goodputPerS.low > up.goodputPerS.high && !isQueue(up) && up.good < FULLY * up.offered,
  );
  const pair = pairsWith(curve, "after").find(
    (pair) => !pair.some(isQueue) && !overlap(pair[0].goodputPerS, pair[1].goodputPerS),
  );
  if (more !== undefined || pair !== undefined) return pair ?? more ?? null;
  if (before === null || after === null || overlap(before, after)) return null;
  return Math.abs(after.value - before.value) > MOVED * before.value ? "knee" : null;
};

/** The way up and the way down, each as a way up of its own. */
export const waysAlone = (curve: Curve): Curve[] =>
  (["up", "down"] as const).map((way) => {
    const levels = curve.levels.filter(({ pass }) => pass === way);
    return { ...curve, levels: levels.map((level) => ({ ...level, pass: "up" })) };
  });

/** A limit is low if more than this share of a level's calls is shed. */
const POORLY = 0.5;
/** A limit has risen if this many times as many calls are in flight as when most were shed, and at least this many more. */
const RISEN = 1.5;
const RISEN_BY = 2;

/** Reports whether a limit on calls in flight that sheds most calls of a level rises later, which nothing lost for good does. */
export const hasRisen = ({ levels }: Curve): boolean => {
  const played = levels.filter(isPlayed);
  return played.some(({ shedsAt, shedShare }, at) => {
    if (shedsAt === null || shedShare.value <= POORLY) return false;
    const least = Math.max(RISEN * shedsAt, shedsAt + RISEN_BY);
    return played.slice(at + 1).some(({ admitsAt }) => admitsAt !== null && admitsAt >= least);
  });
};

/** Widens an interval: the batches of a level share one state of the deployment, so levels vary more than batches do. */
export const WIDER = 1.5;

/** The area between the goodput up and down, divided by the area under that of the way up; `null` below three pairs. */
export const hysteresisOf = (curve: Curve): Estimate | null => {
  const pairs = pairsWith(curve, "down");
  if (pairs.length < 3) return null;
  // Trapezoidal rule: a level weighs half of the distance between its two neighbours.
  const rateOf = (at: number): number => pairs[Math.min(pairs.length - 1, Math.max(0, at))]?.[0].ratePerS ?? 0;
  const each = pairs.map(([up, down], at) => {
    const weight = (rateOf(at + 1) - rateOf(at - 1)) / 2;
    // Scaled to the planned rate, so that the random number of arrivals makes no difference.
    const goodOf = ({ good, offered, ratePerS }: CurveLevel): number => (good / Math.max(1, offered)) * ratePerS;
    const half = weight * Math.hypot(halfOf(up.goodputPerS), halfOf(down.goodputPerS));
    return { off: weight * (goodOf(up) - goodOf(down)), under: weight * goodOf(up), half };
  });
  const under = total(each, (one) => one.under);
  const value = total(each, ({ off }) => Math.abs(off)) / under;
  // Noise goes both ways, an after-effect only one: the signed area bounds the figure from below.
  const half = (WIDER * Math.hypot(...each.map((one) => one.half))) / under;
  const onOneSide = total(each, ({ off }) => off) / under;
  return { value, low: Math.min(value, Math.max(0, onOneSide - half)), high: value + half };
};

const RISING = 0.5;

/**
 * The cost of a refusal as a share of the cost of a served call. It is the slope of goodput over the levels of both ways from
 * 1.4 times the knee on (weighted linear regression), `areSure`: of those that surely lie past it; `null` where there are
 * fewer than three.
 */
export const refusalPriceOf = (curve: Curve, areSure = false): Estimate | null => {
  const [model] = curve.models;
  if (model === undefined || curve.knee.overall === null) return null;
  const { value: kneePerS, high } = curve.knee.overall;
  const levels = (["up", "down"] as const)
    .flatMap((pass) => wayOf(curve, pass))
    .filter(({ ratePerS }) => ratePerS >= Math.max(1.4 * kneePerS, areSure ? high : 0));
  // One scatter for all: a level that carries less by chance also scatters less, and would weigh more.
  const scatter = total(levels, ({ goodputPerS, judgedS }) => halfOf(goodputPerS) ** 2 * judgedS) / levels.length;
  const points = levels.map(({ ratePerS, goodputPerS, judgedS }) => {
    const full = kneePerS / carriedPerS(model, ratePerS);
    const weight = 1 / Math.max(Math.sqrt(scatter / judgedS) * full, 0.005 * kneePerS) ** 2;
    return { x: ratePerS, y: goodputPerS.value * full, weight };
  });
  if (points.length < 3) return null;
  const sum = (of: (point: (typeof points)[number]) => number): number =>
    total(points, (point) => point.weight * of(point));
  const all = sum(() => 1);
  const [middle, height] = [sum(({ x }) => x) / all, sum(({ y }) => y) / all];
  const squares = sum(({ x }) => (x - middle) ** 2);
  const slope = sum(({ x, y }) => (x - middle) * (y - height)) / squares;
  const misfit = sum(({ x, y }) => (y - height - slope * (x - middle)) ** 2) / (points.length - 2);
  // The half-widths are 95 % ones already; points further off the line than their half-widths widen the result.
  const half = Math.sqrt(Math.max(1, (misfit * studentT(points.length - 2) ** 2) / 4) / squares);
  // Goodput that rises by half a call or more with each call offered has not reached the knee, so it shows no price.
  const price = (b: number): number => -Math.min(b, RISING) / (1 - Math.min(b, RISING));
  return { value: price(slope), low: price(slope + half), high: price(slope - half) };
};

/** The largest amount by which the shed share of a level exceeds what the knee cannot carry. */
const excessOf = (curve: Curve): Estimate | null => {
  const { overall } = curve.knee;
  if (overall === null) return null;
  const excess = wayOf(curve, "up").map(({ shedShare, ratePerS }): Estimate => {
    const due = (kneePerS: number): number => Math.max(0, 1 - kneePerS / ratePerS);
    const { value, low, high } = shedShare;
    return { value: value - due(overall.value), low: low - due(overall.low), high: high - due(overall.high) };
  });
  return worstOf(excess, ({ value }) => value);
};

/** The share of events on streams that were cut or came late; `null` without one event. */
export const wastedOf = (levels: readonly CurveLevel[]): Estimate | null => {
  const all = total(levels, ({ events }) => events);
  if (all === 0) return null;
  const wasted = levels.map(({ wastedEvents, events }) => wastedEvents / Math.max(1, events));
  const value = total(levels, ({ wastedEvents }) => wastedEvents) / all;
  return { value, low: Math.min(...wasted), high: Math.max(...wasted) };
};

/** The played levels at 1.2 times the knee or more, of any pass. */
export const pastKnee = (curve: Curve): CurveLevel[] =>
  curve.levels.filter(
    (level) => isPlayed(level) && curve.knee.overall !== null && level.ratePerS >= 1.2 * curve.knee.overall.value,
  );

/** The spread of the shed share past the knee, as a multiple of chance: the median of the levels that show one. */
export const oscillationOf = (curve: Curve): (Estimate & { n: number; each: readonly number[] }) | null => {
  const each = pastKnee(curve).flatMap(({ shedDispersion }) => shedDispersion ?? []);
  const value = median(each);
  if (value === null) return null;
  const ends = { low: Math.min(...each), high: Math.max(...each) };
  return { value, ...(quantileInterval(each, 0.5) ?? ends), n: each.length, each };
};

export const fairnessOfCurve = ({ organizations }: Curve): Estimate | null => {
  if (organizations === null || organizations.length < 2) return null;
  const n = organizations.length;
  const [offered, good] = [total(organizations, (one) => one.offered), total(organizations, (one) => one.good)];
  const value = fairnessIndex(organizations.map((one) => ({ offered: one.offered, served: one.good })));
  if (value === null || good === 0) return null;
  // J = 1 / (1 + v²), where v is the coefficient of variation; the part of v² that is due to chance is subtracted.
  const byChance = ((1 - good / offered) * n) / good;
  const varied = 1 / value - 1 - byChance;
  const scatter = 2 * byChance * Math.sqrt(2 / (n - 1));
  const index = (square: number): number => 1 / (1 + Math.max(0, square));
  return { value: index(varied), low: index(varied + scatter), high: index(varied - scatter) };
};

export const RETENTION_LEVELS = [2, 5, 10] as const;

const finite = (value: number): number | null => (Number.isFinite(value) ? value : null);

export const measurementsOf = (curve: Curve): Measurement[] => {
  const { stage, levels, knee, organizations } = curve;
  const falsely = shedOver(levelsBelow(curve, 0.7));
  const oscillation = oscillationOf(curve);
  const rows: [name: string, of: Estimate | null, n?: number][] = [
    ["knee_rps", knee.overall],
    ["knee_after_rps", knee.after],
    ...RETENTION_LEVELS.map((times): [string, Estimate | null] => {
      return [times === 2 ? "goodput_retention" : `goodput_retention_${times}`, retentionAt(curve, times)];
    }),
    ["closed_form", ofClosedForm(curve)],
    ["excess_sheds", excessOf(curve)],
    ["false_sheds", falsely, falsely?.n],
    ["hysteresis", hysteresisOf(curve)],
    ["refusal_price", refusalPriceOf(curve)],
    ["wasted_work", wastedOf(pastKnee(curve))],
    ["jain_index", fairnessOfCurve(curve), organizations?.length],
    ["oscillation", oscillation, oscillation?.n],
  ];
  const calls = total(levels, ({ offered }) => offered);
  const top = wayOf(curve, "up").at(-1);
  const refusal = { name: "refusal_at_top_ms_p99", stage, unit: "ms", low: null, high: null, n: top?.offered ?? 0 };
  return [
    ...rows.flatMap(([name, of, n = calls]): Measurement[] => {
      const unit = name.endsWith("_rps") ? "1/s" : "ratio";
      return of === null ? [] : [{ name, stage, unit, n, value: of.value, low: of.low, high: finite(of.high) }];
    }),
    ...[top?.refusalMs.p99 ?? []].flat().map((value) => ({ ...refusal, value })),
  ];
};
