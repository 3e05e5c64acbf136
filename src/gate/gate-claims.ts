/** The gate's comparisons as claims `gate/<measurement>`, as measurements of a report, and as a table of 80 columns. */
import { type Claim, claimOf, type Measurement } from "../history/run-document.ts";
import { MEASUREMENT_FACTS } from "./measurements.ts";
import { type Comparison, type GateVerdict, smallestSeen } from "./paired-comparison.ts";

const VERDICTS: Record<GateVerdict, readonly [Claim["verdict"], inTable: string]> = {
  regression: ["fail", "WORSE"],
  "no-regression": ["pass", "ok"],
  inconclusive: ["inconclusive", "open"],
  "not-measured": ["skipped", "-"],
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
      ...{ id: `gate/${measurement}`, stage, replay, verdict: VERDICTS[verdict][0] },
      reason: verdict === "not-measured" ? `skipped: ${reason}` : reason,
      expected: `the head's ${measurement} at most ${margin} times as bad as the base's (${MEASUREMENT_FACTS[measurement].about})`,
      got: gotOf(comparison),
    });
  });

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

const shown = ({ measurement }: Comparison, value: number | null): string => {
  if (value === null) return "-";
  if (MEASUREMENT_FACTS[measurement].unit === "share") return `${(value * 100).toFixed(2)}%`;
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
};

/** Three decimals, one from 10 on, none from 100 on. */
const shownRatio = (value: number | null): string =>
  value === null ? "-" : value >= 100 ? ">=100" : value.toFixed(value >= 10 ? 1 : 3);

/** Widths of the columns, 80 with a space between. */
const WIDTHS = [16, 7, 7, 6, 13, 7, 6, 7];
const line = (...cells: string[]): string =>
  cells
    .map((cell, at) => (at === 0 || at === 7 ? cell.padEnd(WIDTHS[at]!) : cell.padStart(WIDTHS[at]!)))
    .join(" ")
    .trimEnd();

export const gateTable = (comparisons: readonly Comparison[]): string[] => [
  line("measurement", "base", "head", "ratio", "95 % interval", "allowed", "seen", "verdict"),
  ...comparisons.map((found) => {
    const { measurement, base, head, worseBy, low, high, margin, improved, verdict } = found;
    const interval = low === null ? "-" : `${shownRatio(low)}-${shownRatio(high)}`;
    const ratios = [shownRatio(worseBy), interval, shownRatio(margin), shownRatio(smallestSeen(found))];
    const word = improved ? "better" : VERDICTS[verdict][1];
    return line(measurement, shown(found, base), shown(found, head), ...ratios, word);
  }),
  "ratio: head to base, turned so that above 1 is worse (shares: by what remains",
  "of the calls), typical of the pairs. seen: the smallest ratio that these pairs",
  "would have shown as worse nine times in ten.",
];
