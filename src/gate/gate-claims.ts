/** What the gate found, as claims `gate/<measurement>` of a report. */
import { claimOf } from "../history/claim.ts";
import type { Claim, Measurement } from "../history/run-document.ts";
import { MEASUREMENT_FACTS } from "./measurements.ts";
import { type Comparison, type GateVerdict, smallestSeen } from "./paired-comparison.ts";
import type { Sinking } from "./sinking.ts";

const VERDICTS: Record<GateVerdict, Claim["verdict"]> = {
  regression: "fail",
  "no-regression": "pass",
  inconclusive: "inconclusive",
  "not-measured": "skipped",
};

const ratio = (value: number | null): string => (value === null ? "?" : value.toFixed(3));

const gotOf = (found: Comparison): string => {
  const { worseBy, low, high, pairs } = found;
  return worseBy === null
    ? "nothing to compare"
    : `${ratio(worseBy)} times as bad (95 %: ${ratio(low)} to ${ratio(high)}) in ${pairs} pairs; ${ratio(smallestSeen(found))} would have been seen`;
};

export const gateClaims = (comparisons: readonly Comparison[], stage: string, replay: string): Claim[] =>
  comparisons.map((comparison) => {
    const { measurement, verdict, reason, margin } = comparison;
    return claimOf({
      ...{ id: `gate/${measurement}`, stage, replay, verdict: VERDICTS[verdict] },
      reason: verdict === "not-measured" ? `skipped: ${reason}` : reason,
      expected: `the head's ${measurement} at most ${margin} times as bad as the base's (${MEASUREMENT_FACTS[measurement].about})`,
      got: gotOf(comparison),
    });
  });

const SINKING: Record<Sinking["verdict"], readonly [Claim["verdict"], reason: string]> = {
  sinks: ["fail", "the head carries less from pair to pair, as where slots are not given back"],
  holds: ["pass", "the head carries as much in the last pairs as in the first"],
  "too-few": ["inconclusive", "too few pairs"],
  nothing: ["inconclusive", "the head carried nothing from the first pairs on"],
};

/** `gate/goodput_kept`: that the head carries in the last pairs what it carried in the first. */
export const sinkingClaim = ({ verdict, pairs, lostBy, p }: Sinking, stage: string, replay: string): Claim => {
  const [judged, reason] = SINKING[verdict];
  const fall = `${ratio(lostBy)} times worse in the last third of ${pairs} pairs; a fall like this by chance ${(p * 100).toPrecision(2)} %`;
  return claimOf({
    ...{ id: "gate/goodput_kept", stage, replay, verdict: judged },
    reason: verdict === "too-few" ? `${reason}: ${pairs}` : reason,
    expected: "the head's goodput beside the base's does not fall while the run goes on",
    got: lostBy === null ? "nothing to compare" : fall,
  });
};

/** Both sides' typical values, and the ratio with its interval. */
export const gateMeasurements = (comparisons: readonly Comparison[], stage: string): Measurement[] =>
  comparisons.flatMap(({ measurement, base, head, worseBy, low, high, pairs: n }) => {
    if (base === null || head === null || worseBy === null) return [];
    const { unit } = MEASUREMENT_FACTS[measurement];
    const of = { name: measurement, unit: unit === "share" ? "ratio" : unit, low: null, high: null, n };
    return [
      { ...of, stage: `${stage}.base`, value: base },
      { ...of, stage: `${stage}.head`, value: head },
      { name: `${measurement}_worse_by`, stage, value: worseBy, unit: "ratio", low, high, n },
    ];
  });
