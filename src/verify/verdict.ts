/** The verdict of a rule: judged, with what shows a failure; or not judged, and why. */
import { maskSecrets } from "../contract/credentials.ts";
import type { ClaimVerdict } from "../history/run-document.ts";
import type { Answer } from "./sending/answer.ts";

export type Failure = {
  expected: string;
  got: string;
  /** The calls that show it, the decisive one last. */
  steps: readonly Answer[];
  /** Outcomes that the last call may have; `null` if one call does not decide. */
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
  /** The spent budget, as a sentence, if that made the rule inconclusive. */
  spent?: string;
  /** Nothing happened that the rule is about, and no call can cause it. */
  idle?: true;
};

/** Verdict of an `info` rule: what was found. */
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

/** Why a rule was not judged. `inconclusive` leaves the run open; `skipped` does not. */
export type Open = { readonly verdict: "inconclusive" | "skipped"; readonly reason: string; readonly spent?: string };

/** Ends a rule without judging, whatever it found before. */
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
