/** Runs a stage's invariants over its lines. */
import { type Line, lineTimeUs } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { isDefinite } from "./evidence/moments.ts";
import { type Finding, type Invariant, openJudge } from "./invariant.ts";

export const inOrder = (lines: readonly Line[]): Line[] => lines.toSorted((a, b) => lineTimeUs(a) - lineTimeUs(b));

/** A cut-off stage's failures are inconclusive, because what is missing looks like a breach. */
export const ofCutOffStage = (claim: Claim): Claim =>
  claim.verdict === "fail"
    ? { ...claim, verdict: "inconclusive", reason: `the stage was cut off; as far as it got: ${claim.reason}` }
    : claim;

const isOpen = ({ verdict }: Finding): boolean => verdict === "fail" || verdict === "inconclusive";

/** Each line goes to all judges, in the order of `lineTimeUs`. */
export const openJudges = (invariants: readonly Invariant[], facts: StageFacts) => {
  const judges = invariants.map((invariant) => ({ invariant, judge: openJudge(invariant, facts) }));
  let calls = 0;
  let unanswered = 0;
  return {
    see: (line: Line): void => {
      if (line.type === "call") {
        calls += 1;
        if (!isDefinite(line)) unanswered += 1;
      } else if (line.type === "fold") calls += line.offered;
      for (const { judge } of judges) judge.see(line);
    },
    claims: (replay: string): Claim[] => {
      const found = judges.map(({ invariant, judge }) => ({ invariant, finding: judge.end() }));
      const isOfRest = found.some(({ invariant, finding }) => invariant.id === "answered" && isOpen(finding));
      const rest = `; judged on ${calls - unanswered} of ${calls} calls, which the API answered`;
      return found.map(({ invariant, finding }) => {
        const { id, level, spec } = invariant;
        const saysOfHowMany = isOfRest && id !== "answered" && finding.verdict !== "skipped";
        const reason = saysOfHowMany ? finding.reason + rest : finding.reason;
        return { id: `${id}/${facts.stage}`, stage: facts.stage, level, ...finding, reason, spec, replay };
      });
    },
  };
};

export const judgeStage = (
  invariants: readonly Invariant[],
  facts: StageFacts,
  ordered: Iterable<Line>,
  replay: string,
): Claim[] => {
  const judges = openJudges(invariants, facts);
  for (const line of ordered) judges.see(line);
  return judges.claims(replay);
};
