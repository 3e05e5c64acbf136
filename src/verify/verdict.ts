/** What a rule says in the end: judged, with what shows a failure, or not judged, and why. */
import { maskSecrets } from "../contract/credentials.ts";
import type { ClaimVerdict } from "../history/run-document.ts";
import type { Answer } from "./sending/answer.ts";

/** What made a rule fail, as a crash file shows it. */
export type Failure = {
  expected: string;
  got: string;
  /** The calls that show it, the decisive one last. */
  steps: readonly Answer[];
  /** Outcomes that the last call may have; `null` where one call alone does not decide. */
  accepts: readonly string[] | null;
};

export type Verdict = {
  verdict: ClaimVerdict;
  reason: string;
  expected: string;
  got: string;
  /** Ids of calls, at most ten. */
  evidence: string[];
  failure?: Failure;
  /** The budget that the run has used up, in a sentence: the rule is inconclusive for want of it. */
  spent?: string;
  /** What the rule is about did not come about, and no caller can bring it about. */
  idle?: true;
};

/** What was found where the specification leaves the answer open. */
export const recorded = (
  got: string,
  answers: readonly Answer[],
  why = "the specification leaves it open",
): Verdict => ({
  verdict: answers.some(({ transient }) => transient) ? "inconclusive" : "pass",
  reason: `recorded, not judged: ${why}`,
  expected: "anything",
  got: maskSecrets(got),
  evidence: answers.map(({ id }) => id),
});

/** Why something is not judged. `inconclusive` leaves the run open; `skipped` does not. */
export type Open = { readonly verdict: "inconclusive" | "skipped"; readonly reason: string; readonly spent?: string };

/** Thrown by a rule in place of a verdict, whatever it judged before. */
export class CannotJudge extends Error {
  override name = "CannotJudge";
  readonly open: Open;
  constructor(open: Open) {
    super(open.reason);
    this.open = open;
  }
}

export const inconclusive = (reason: string): CannotJudge => new CannotJudge({ verdict: "inconclusive", reason });
export const skipped = (reason: string): CannotJudge => new CannotJudge({ verdict: "skipped", reason });
