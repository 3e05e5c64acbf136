/**
 * Tests whether the head gets worse while it runs. Leaking slots cost nothing in the first block and everything in the
 * last, so the exact test of Mann and Kendall looks for a falling trend in the ratios of goodput.
 *
 * Source: Kendall & Gibbons, "Rank Correlation Methods", 5th ed. (1990), chapters 1 and 4.
 */
import { type Claim, claimOf } from "../history/run-document.ts";
import { logWorse } from "./measurements.ts";
import type { Pair } from "./paired-comparison.ts";
import { typicalDifference } from "./signed-rank.ts";

/**
 * The probability that so few pairs of `values` descend (the later is lower) if their order is random. Ties count as
 * descending, which is the safe side. 1 for an empty list.
 */
export const risingP = (values: readonly number[]): number => {
  let descending = 0;
  for (const [at, value] of values.entries()) {
    for (const later of values.slice(at + 1)) if (later <= value) descending += 1;
  }
  // ways[k]: the share of permutations of n values that have k inversions.
  let ways = [1];
  for (let n = 2; n <= values.length; n += 1) {
    const next = new Array<number>(ways.length + n - 1).fill(0);
    for (const [k, share] of ways.entries()) for (let more = 0; more < n; more += 1) next[k + more]! += share / n;
    ways = next;
  }
  return ways.slice(0, descending + 1).reduce((sum, share) => sum + share, 0);
};

const VERDICTS = {
  sinks: ["fail", "the head carries less from pair to pair, as where slots are not given back"],
  holds: ["pass", "the head carries as much in the last pairs as in the first"],
  "too-few": ["inconclusive", "too few pairs"],
  // The claim about goodput itself shows that the head carries nothing.
  nothing: ["inconclusive", "the head carried nothing from the first pairs on"],
} as const;

/** `lostBy`: how many times worse the last third of the pairs is than the first, typically; `null` where nothing is decided. */
type Sinking = { verdict: keyof typeof VERDICTS; pairs: number; lostBy: number | null; p: number };

const FEWEST_PAIRS = 6;
/** A head with a hundredth of the base's goodput carries nothing. */
const NOTHING = Math.log(100);

/** Judges whether the ratio of head's to base's goodput falls by `margin` or more, at the significance `falseAlarm`. */
export const sinkingOf = (pairs: readonly Pair[], margin: number, falseAlarm: number): Sinking => {
  const worse = pairs.flatMap(({ base, head }) =>
    base.goodput === null || head.goodput === null ? [] : [logWorse("goodput", base.goodput, head.goodput)],
  );
  const undecided = (verdict: Sinking["verdict"]): Sinking => ({ verdict, pairs: worse.length, lostBy: null, p: 1 });
  const third = Math.ceil(worse.length / 3);
  const first = typicalDifference(worse.slice(0, third));
  const last = typicalDifference(worse.slice(-third));
  if (first === null || last === null || worse.length < FEWEST_PAIRS) return undecided("too-few");
  if (first >= NOTHING) return undecided("nothing");
  const p = risingP(worse);
  const lostBy = Math.exp(last - first);
  return { verdict: p <= falseAlarm && lostBy >= margin ? "sinks" : "holds", pairs: worse.length, lostBy, p };
};

/** The claim `gate/goodput_kept`: the head carries as much in the last pairs as in the first. */
export const sinkingClaim = ({ verdict, pairs, lostBy, p }: Sinking, stage: string, replay: string): Claim => {
  const [judged, reason] = VERDICTS[verdict];
  const chance = `a fall like this by chance ${(p * 100).toPrecision(2)} %`;
  return claimOf({
    ...{ id: "gate/goodput_kept", stage, replay, verdict: judged },
    reason: verdict === "too-few" ? `${reason}: ${pairs}` : reason,
    expected: "the head's goodput beside the base's does not fall while the run goes on",
    got:
      lostBy === null
        ? "nothing to compare"
        : `${lostBy.toFixed(3)} times worse in the last third of ${pairs} pairs; ${chance}`,
  });
};
