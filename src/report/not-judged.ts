/** What a run does not say, and why. A report that shows only what was judged reads as if all had been. */
import { countedAs, OUTCOMES } from "../contract/refusals.ts";
import type { Claim, ClaimVerdict, RunDocument } from "../history/run-document.ts";
import { oneLine } from "./escape.ts";

export type ReasonGroup = { reason: string; ids: string[] };

type NotJudged = {
  /** Skipped claims by what was missing, the largest group first. */
  skipped: ReasonGroup[];
  /** Claims that were tried and could not be decided. */
  inconclusive: ReasonGroup[];
  /** Documented outcomes that are in no stage's table. An error in a body and one in a stream share a row there. */
  unseen: string[];
};

const byReason = (claims: readonly Claim[], verdict: ClaimVerdict): ReasonGroup[] => {
  const groups = new Map<string, string[]>();
  for (const claim of claims) {
    if (claim.verdict !== verdict) continue;
    // The verdict stands above the group; the judges also begin their sentence with it.
    const reason = oneLine(claim.reason).replace(/^skipped: */, "") || "no reason was given";
    groups.set(reason, [...(groups.get(reason) ?? []), claim.id]);
  }
  return [...groups].map(([reason, ids]) => ({ reason, ids })).sort((a, b) => b.ids.length - a.ids.length);
};

export const notJudged = (run: RunDocument): NotJudged => {
  const seen = new Set(run.stages.flatMap((stage) => Object.keys(stage.by_outcome)));
  return {
    skipped: byReason(run.claims, "skipped"),
    inconclusive: byReason(run.claims, "inconclusive"),
    unseen: OUTCOMES.filter((outcome) => !seen.has(countedAs(outcome))),
  };
};
