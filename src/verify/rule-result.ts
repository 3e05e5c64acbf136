/** What a rule says in the end, and what shows a failure. */
import type { ClaimVerdict } from "../history/run-document.ts";
import type { Answer } from "./sending/answer.ts";

/** What made a rule fail, as far as a crash file can show it. */
export type Failure = {
  expected: string;
  got: string;
  /** The calls that show it, the decisive one last. */
  steps: readonly Answer[];
  /** Outcomes that the last call may have; `null` where one call alone does not decide. */
  accepts: readonly string[] | null;
};

export type RuleResult = {
  verdict: ClaimVerdict;
  reason: string;
  expected: string;
  got: string;
  /** Ids of calls, at most ten. */
  evidence: string[];
  failure?: Failure;
  /** It is open for want of a budget that the run has used up. */
  spent?: true;
  /** What the rule is about did not come about, and nothing from outside brings it about: there was nothing to hold. */
  idle?: true;
};
