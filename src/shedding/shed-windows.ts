/** How sheds are distributed in time: evenly, up and down, or in bursts. */
import { median, quantile, sumOf } from "../history/statistics/statistics.ts";
import type { Bursts } from "./curve.ts";

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

/** A window that sheds at least this share of its calls belongs to a burst. */
const IN_BURST = 0.5;
/**
 * A burst ends by itself if, of all windows of its way, this share comes after it without sheds; it begins by itself if this
 * share comes before it without sheds.
 */
const QUIET = 0.1;
/** Bursts explain the sheds if at least this share of the sheds lies in bursts. */
const EXPLAINED = 0.7;
/** A gap between bursts is regular if it differs from the median gap by at most this share. */
const REGULAR = 0.25;
const PERIODS_MIN = 3;

/**
 * Bursts: runs of adjacent windows with sheds, of which at least one sheds most of its calls. Windows of few sheds belong to
 * a burst as well, because a limiter that has measured with few calls in flight raises its limit step by step.
 */
const runsOf = (windows: readonly Window[]): Window[][] => {
  const runs: Window[][] = [[]];
  for (const window of windows) {
    if (window.shed === 0) runs.push([]);
    else runs.at(-1)?.push(window);
  }
  return runs.filter((run) => run.some(({ offered, shed }) => shed > 1 && shed >= IN_BURST * offered));
};

/**
 * Finds bursts that explain the sheds, else `null`. `up`, `later`: the windows of each level below the knee on the way up
 * and after it. The load does not explain a burst that ends while it rises, nor one that begins while it falls.
 */
export const burstsOf = (up: readonly (readonly Window[])[], later: readonly (readonly Window[])[]): Bursts | null => {
  const byThemselves = (
    levels: readonly (readonly Window[])[],
    isQuietSide: (us: number, burstUs: number) => boolean,
  ) => {
    const windows = levels.flat();
    const quiet = windows.filter(({ shed }) => shed === 0);
    return levels.flatMap(runsOf).filter((run) => {
      const { atUs: burstUs } = run[0] as Window;
      return quiet.filter(({ atUs }) => isQuietSide(atUs, burstUs)).length >= QUIET * windows.length;
    });
  };
  const runs = [
    ...byThemselves(up, (us, burstUs) => us > burstUs),
    ...byThemselves(later, (us, burstUs) => us < burstUs),
  ];
  const all = shedsIn([...up, ...later].flat());
  if (all === 0 || shedsIn(runs.flat()) < EXPLAINED * all) return null;
  const starts = runs.map(([first]) => first as Window);
  const gaps = starts.slice(1).map(({ atUs }, at) => (atUs - (starts[at] as Window).atUs) / 1e6);
  const periodS = median(gaps);
  const regular = gaps.filter((gap) => periodS !== null && Math.abs(gap - periodS) <= REGULAR * periodS).length;
  const isRegular = regular >= PERIODS_MIN && regular >= EXPLAINED * gaps.length;
  return { count: starts.length, periodS: isRegular ? periodS : null };
};
