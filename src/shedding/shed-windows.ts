/** How sheds are distributed in time: evenly, or up and down. */
import { quantile, sumOf } from "../history/statistics/statistics.ts";

const WINDOWS_MIN = 8;
/** A shed share nearer to 0 or 1 than this has hardly any room to vary. */
const SHARE_MIN = 0.05;
/** The share of a normal distribution within one standard deviation. */
const WITHIN_ONE = 0.6827;

/** AIMD (additive increase, multiplicative decrease) admits this share more or less than on average. */
const SWING_ALLOWED = 0.1;

const inPairs = (counts: readonly number[]): number[] =>
  Array.from({ length: counts.length >> 1 }, (_, at) => sumOf(counts.slice(2 * at, 2 * at + 2)));

/**
 * The deviation of the shed share that 68 % of a level's windows keep, divided by what chance and an ordinary limiter cause;
 * 68 %, so that a few short dips do not count. Windows are also joined in pairs; the largest result counts.
 */
export const dispersionOf = (offered: readonly number[], shed: readonly number[]): number | null => {
  const share = sumOf(shed) / Math.max(1, sumOf(offered));
  if (offered.length < WINDOWS_MIN || share < SHARE_MIN || share > 1 - SHARE_MIN) return null;
  const off = offered.flatMap((n, at) => {
    const allowed = Math.hypot(Math.sqrt((share * (1 - share)) / n), SWING_ALLOWED * (1 - share));
    return n === 0 ? [] : [Math.abs((shed[at] as number) / n - share) / allowed];
  });
  return Math.max(quantile(off, WITHIN_ONE) ?? 0, dispersionOf(inPairs(offered), inPairs(shed)) ?? 0);
};
