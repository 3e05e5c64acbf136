/** How sheds are distributed in time: evenly, or up and down. */
import { quantile, sumOf } from "../history/statistics/statistics.ts";

/** A short span of a level. */
export type Window = { readonly atUs: number; offered: number; shed: number };

const WINDOWS_MIN = 8;
/** A shed share nearer to 0 or 1 than this has hardly any room to vary. */
const SHARE_MIN = 0.05;
/** The share of a normal distribution within one standard deviation. */
const WITHIN_ONE = 0.6827;

const shedsIn = (windows: readonly Window[]): number => sumOf(windows.map(({ shed }) => shed));

const shareOf = (windows: readonly Window[]): number =>
  shedsIn(windows) / Math.max(1, sumOf(windows.map(({ offered }) => offered)));

/** AIMD (additive increase, multiplicative decrease) admits this share more or less than on average. */
const SWING_ALLOWED = 0.1;

const inPairs = (windows: readonly Window[]): Window[] =>
  Array.from({ length: windows.length >> 1 }, (_, at) => {
    const [one, other] = [windows[2 * at] as Window, windows[2 * at + 1] as Window];
    return { atUs: one.atUs, offered: one.offered + other.offered, shed: one.shed + other.shed };
  });

/**
 * The deviation of the shed share that 68 % of the windows keep, divided by what chance and an ordinary limiter cause;
 * 68 %, so that a few short dips do not count. Windows are also joined in pairs; the largest result counts.
 */
export const dispersionOf = (windows: readonly Window[]): number | null => {
  const share = shareOf(windows);
  if (windows.length < WINDOWS_MIN || share < SHARE_MIN || share > 1 - SHARE_MIN) return null;
  const off = windows
    .filter(({ offered }) => offered > 0)
    .map(
      ({ offered, shed }) =>
        Math.abs(shed / offered - share) /
        Math.hypot(Math.sqrt((share * (1 - share)) / offered), SWING_ALLOWED * (1 - share)),
    );
  return Math.max(quantile(off, WITHIN_ONE) ?? 0, dispersionOf(inPairs(windows)) ?? 0);
};
