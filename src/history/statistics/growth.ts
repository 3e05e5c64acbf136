/**
 * Judges whether readings over time grow by more than a figure an hour: a pass or a failure if the whole interval of the slope lies
 * on one side of the figure, else inconclusive. Judged are the floors, the lowest readings of equal parts of the time, because
 * memory rises until it is collected, and readings that follow each other are alike. The slope is the median of the slopes between
 * all pairs of points, which outliers do not move, with its interval by Kendall's statistic. Sources: Theil (1950); Sen, "Estimates
 * of the regression coefficient based on Kendall's tau", JASA 63 (1968); Hollander & Wolfe, "Nonparametric Statistical Methods",
 * 2nd edition (1999), sections 9.2 and 9.3. The distribution of Kendall's statistic is exact for independent points; ties only
 * widen the interval.
 */
import { BROKEN, HELD, openBy, type Ruling } from "../reason-codes.ts";
import { type Interval, median } from "./statistics.ts";

export type Point = { x: number; y: number };
type Slope = { slope: number; low: number; high: number; n: number };

/**
 * For each number i from 0 on, the share of the orders of n values that have at most i inversions. Of Kendall's statistic K this
 * is P(K >= n(n-1)/2 - 2i) for n points without ties.
 */
export const inversionTails = (n: number): number[] => {
  let orders = [1];
  for (let points = 2; points <= n; points += 1) {
    const next = new Array<number>((points * (points - 1)) / 2 + 1).fill(0);
    for (const [inversions, count] of orders.entries()) {
      for (let more = 0; more < points; more += 1)
        next[inversions + more] = (next[inversions + more] ?? 0) + count / points;
    }
    orders = next;
  }
  let sum = 0;
  return orders.map((share) => {
    sum += share;
    return sum;
  });
};

/** How far from the middle the ranks of the interval lie (Hollander & Wolfe's C), at most all pairs. */
const reach = (n: number, confidence: number): number => {
  const pairs = (n * (n - 1)) / 2;
  const tail = (1 - confidence) / 2;
  // The smallest k that is exceeded rarely enough; K goes in steps of two.
  const inversions = inversionTails(n).findLastIndex((share) => share <= tail);
  return inversions < 0 ? pairs : pairs - 2 * inversions - 2;
};

/** The slope, in units of y for each unit of x; `null` if all points have one x. */
export const theilSen = (points: readonly Point[], confidence = 0.95): Slope | null => {
  const slopes: number[] = [];
  for (const [i, a] of points.entries()) {
    for (const b of points.slice(i + 1)) if (a.x !== b.x) slopes.push((b.y - a.y) / (b.x - a.x));
  }
  slopes.sort((a, b) => a - b);
  const slope = median(slopes);
  if (slope === null) return null;
  const below = Math.max(0, Math.floor((slopes.length - reach(points.length, confidence)) / 2));
  const interval: Interval = {
    low: slopes[Math.max(0, below - 1)] as number,
    high: slopes[Math.min(slopes.length - 1, slopes.length - below)] as number,
  };
  return { slope, ...interval, n: points.length };
};

export type Reading = { atMs: number; value: number };

/** `slope`: by the hour; `null` for too few readings. */
type GrowthVerdict = Ruling & { reason: string; slope: Slope | null };

const TOO_FEW = openBy("too-few-calls");
const ENOUGH_READINGS = 20;
const ENOUGH_MS = 120_000;
const HOUR_MS = 3_600_000;
const PARTS = 12;
/** If the slope of the second half is below this share of the first half's, growth may end, as that of a cache that fills up. */
const SLOWED = 0.5;
/** The falls of a collected heap add up to more than this many times its net growth. */
const GIVEN_BACK = 2;

const round = (value: number): string =>
  Math.abs(value) >= 100 ? Math.round(value).toString() : (Math.round(value * 10) / 10).toString();

/** The readings in equal parts of their time. Parts without a reading are left out. */
const partsOf = (readings: readonly Reading[], firstMs: number, spanMs: number): Reading[][] =>
  Map.groupBy(readings, ({ atMs }) => Math.min(PARTS - 1, Math.floor((PARTS * (atMs - firstMs)) / spanMs)))
    .values()
    .toArray();

const floorOf = (part: readonly Reading[]): Reading =>
  part.reduce((lowest, reading) => (reading.value < lowest.value ? reading : lowest));

/** The sum of all falls from one reading to the next. */
const givenBack = (readings: readonly Reading[]): number =>
  readings.reduce((sum, { value }, at) => sum + Math.max(0, (readings[at - 1]?.value ?? value) - value), 0);

/**
 * `perHour`: the allowed growth, in the unit of the readings, which `unit` names. `hasGarbage`: the readings hold memory
 * that is free but not collected yet.
 */
export const judgeGrowth = (
  readings: readonly Reading[],
  perHour: number,
  unit: string,
  hasGarbage = false,
): GrowthVerdict => {
  const first = readings[0]?.atMs ?? 0;
  const spanMs = (readings.at(-1)?.atMs ?? 0) - first;
  if (readings.length < ENOUGH_READINGS || spanMs < ENOUGH_MS) {
    const reason = `${readings.length} readings over ${Math.round(spanMs / 1000)} s after the warm-up; ${ENOUGH_READINGS} over ${ENOUGH_MS / 1000} s are needed`;
    return { ...TOO_FEW, reason, slope: null };
  }
  const parts = partsOf(readings, first, spanMs);
  const floors = parts.map(floorOf).map(({ atMs, value }) => ({ x: (atMs - first) / HOUR_MS, y: value }));
  const slope = theilSen(floors);
  if (slope === null) return { ...TOO_FEW, reason: "all readings are of one moment", slope };
  const figures = `${round(slope.slope)} ${unit} an hour (95 %: ${round(slope.low)} to ${round(slope.high)}; ${Math.round(spanMs / 1000)} s in ${slope.n} parts, each by its lowest reading)`;
  const open = (why: string): GrowthVerdict => ({ ...TOO_FEW, reason: `it grows by ${figures}${why}`, slope });
  if (slope.high <= perHour) return { ...HELD, reason: `it grows by ${figures}`, slope };
  if (slope.low <= perHour) return open(", which is on both sides of the limit; a longer soak decides");
  const half = floors.length >> 1;
  const [before, after] = [theilSen(floors.slice(0, half)), theilSen(floors.slice(half))].map((of) => of?.slope ?? 0);
  if ((after as number) < SLOWED * (before as number))
    return open(", less and less, as what fills up does; a longer soak decides");
  if (hasGarbage && givenBack(readings) < (GIVEN_BACK * slope.slope * spanMs) / HOUR_MS)
    return open(
      ", and gives little back in between, so it may be garbage that was not collected yet; a longer soak, or a query of what is left after a collection, decides",
    );
  return { ...BROKEN, reason: `it grows by ${figures}`, slope };
};
