/**
 * Whether a share of streams that went wrong is more than a line now and then makes. One rule for all that is counted so:
 *
 * - none: kept, however few streams there were
 * - kept: the share would be within the limit with one more, so that a single one of too few streams to know is no pass (at
 *   1 %: one of 200 is kept, one of 100 and nine of 900 are not), and a gateway that is deployed ends no night
 * - broken: the whole exact 95 % interval lies above the limit, and there were three at least, since a line that is bad for a
 *   moment makes one or two of any number
 * - open: anything else, the streams are too few to tell
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

/** As `1.2 %`; two digits that count. */
export const percent = (share: number): string => `${Number((share * 100).toPrecision(2))} %`;

export const shareWords = ({ share, low, high }: StrayShare): string =>
  `${percent(share)}, 95 % interval ${percent(low)} to ${percent(high)}`;
