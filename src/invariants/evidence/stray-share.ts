/**
 * Whether a share of bad streams is more than strays:
 *
 * - kept: there is none, or one more would still be within the limit, so one bad stream of too few is no pass (at 1 %:
 *   one of 200 is kept, one of 100 and nine of 900 are not)
 * - broken: at least three, and the exact 95 % interval lies above the limit; a line that is bad for a moment makes
 *   one or two of any number
 * - open: anything else
 */
import { exactInterval } from "../../history/statistics/statistics.ts";

type StrayShare = { verdict: "kept" | "broken" | "open"; share: number; low: number; high: number };

const ENOUGH_TO_ACCUSE = 3;

export const judgeStrays = (strays: number, n: number, limit: number): StrayShare => {
  const { low, high } = exactInterval(strays, n) ?? { low: 0, high: 1 };
  const isKept = strays === 0 || strays + 1 <= limit * n;
  const isBroken = strays >= ENOUGH_TO_ACCUSE && low > limit;
  return { verdict: isKept ? "kept" : isBroken ? "broken" : "open", share: n === 0 ? 0 : strays / n, low, high };
};

export const percent = (share: number): string => `${Number((share * 100).toPrecision(2))} %`;

export const shareWords = ({ share, low, high }: StrayShare): string =>
  `${percent(share)}, 95 % interval ${percent(low)} to ${percent(high)}`;
