/** What the gate found, as claims `gate/<measurement>` of a report. */
import type { Claim } from "../history/run-document.ts";
import { GATE_MEASUREMENTS } from "./block.ts";
import type { Comparison, GateVerdict } from "./paired-comparison.ts";

export const GATE_CLAIM_IDS: readonly string[] = GATE_MEASUREMENTS.map((measurement) => `gate/${measurement}`);

const VERDICTS: Record<GateVerdict, Claim["verdict"]> = {
  regression: "fail",
  "no-regression": "pass",
  inconclusive: "inconclusive",
};

export const gateClaims = (comparisons: readonly Comparison[], stage: string, replay: string): Claim[] =>
  comparisons.map(({ measurement, verdict, pairs, worseBy, reason }) => ({
    id: `gate/${measurement}`,
    stage,
    level: "must",
    verdict: VERDICTS[verdict],
    reason,
    expected: `the head's ${measurement} no worse than the base's, within the margin`,
    got: worseBy === null ? "nothing to compare" : `${worseBy.toFixed(3)} times as bad, in ${pairs} pairs`,
    spec: [],
    evidence: [],
    replay,
  }));
