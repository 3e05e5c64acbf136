/** The newest calls of a load that is under way: what an experiment looks at to know whether a deployment is steady. */
import type { CallLine } from "../../history/line.ts";

const KEPT = 128;

export type RecentCalls = {
  add(line: CallLine): void;
  /** Whether the last `wanted` of the calls sent since a moment were all answered. */
  allAnswered(sinceUs: number, wanted: number): boolean;
};

export const createRecentCalls = (): RecentCalls => {
  const kept: CallLine[] = [];
  return {
    add: (line) => {
      kept.push(line);
      if (kept.length > 2 * KEPT) kept.splice(0, KEPT);
    },
    allAnswered: (sinceUs, wanted) => {
      let seen = 0;
      for (let at = kept.length - 1; at >= 0 && seen < wanted; at--) {
        const line = kept[at] as CallLine;
        if (line.sent_us < sinceUs) continue;
        if (!line.outcome.startsWith("2")) return false;
        seen += 1;
      }
      return seen >= wanted;
    },
  };
};
