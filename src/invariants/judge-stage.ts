/** Puts the lines of a stage in order and runs the invariants that the stage is judged by over them. */
import type { Line } from "../history/line.ts";
import { lineTimeUs } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { type Invariant, judgeWith } from "./invariant.ts";

export const inOrder = (lines: readonly Line[]): Line[] =>
  lines
    .map((line, index) => ({ line, index, at: lineTimeUs(line) }))
    .sort((a, b) => a.at - b.at || a.index - b.index)
    .map(({ line }) => line);

/** What is missing of a stage that was cut off looks like a broken promise, so nothing of it can fail. */
export const ofCutOffStage = (claim: Claim): Claim =>
  claim.verdict === "fail"
    ? { ...claim, verdict: "inconclusive", reason: `the stage was cut off; as far as it got: ${claim.reason}` }
    : claim;

export const judgeStage = (
  invariants: readonly Invariant[],
  facts: StageFacts,
  ordered: readonly Line[],
  replay: string,
): Claim[] =>
  invariants.map((invariant) => {
    const finding = judgeWith(invariant, facts, ordered);
    return {
      id: `${invariant.id}/${facts.stage}`,
      stage: facts.stage,
      level: invariant.level,
      verdict: finding.verdict,
      reason: finding.reason,
      expected: finding.expected,
      got: finding.got,
      spec: invariant.spec,
      evidence: finding.evidence,
      replay,
    };
  });
