/**
 * Does something grow? Readings over time, their slope by Theil and Sen with its interval, and a figure an hour that it may
 * grow by. Certainly less is a pass, certainly more a fail; what lies between, or rests on too little, is neither.
 */
import { type Slope, theilSen } from "./theil-sen.ts";

export type Reading = { atMs: number; value: number };

type GrowthVerdict = {
  verdict: "pass" | "fail" | "inconclusive";
  reason: string;
  /** By the hour; `null` of too little. */
  slope: Slope | null;
};

/** Readings after the warm-up, and the time that they cover, without which a slope is a guess. */
const ENOUGH_READINGS = 20;
const ENOUGH_MS = 120_000;
const HOUR_MS = 3_600_000;

const round = (value: number): string =>
  Math.abs(value) >= 100 ? Math.round(value).toString() : (Math.round(value * 10) / 10).toString();

/** `perHour`: in the unit of the readings, as `unit` names it. */
export const judgeGrowth = (readings: readonly Reading[], perHour: number, unit: string): GrowthVerdict => {
  const first = readings[0]?.atMs ?? 0;
  const spanMs = (readings.at(-1)?.atMs ?? 0) - first;
  if (readings.length < ENOUGH_READINGS || spanMs < ENOUGH_MS) {
    const reason = `${readings.length} readings over ${Math.round(spanMs / 1000)} s after the warm-up; ${ENOUGH_READINGS} over ${ENOUGH_MS / 1000} s are needed`;
    return { verdict: "inconclusive", reason, slope: null };
  }
  const slope = theilSen(readings.map(({ atMs, value }) => ({ x: (atMs - first) / HOUR_MS, y: value })));
  if (slope === null) return { verdict: "inconclusive", reason: "all readings are of one moment", slope };
  const figures = `${round(slope.slope)} ${unit} an hour (95 %: ${round(slope.low)} to ${round(slope.high)}, ${slope.n} readings over ${Math.round(spanMs / 1000)} s)`;
  if (slope.high <= perHour) return { verdict: "pass", reason: `it grows by ${figures}`, slope };
  if (slope.low > perHour) return { verdict: "fail", reason: `it grows by ${figures}`, slope };
  return {
    verdict: "inconclusive",
    reason: `whether it grows by more than is allowed is not certain: ${figures}`,
    slope,
  };
};
