/** A rule finds out that it cannot judge: thrown in place of a verdict, whatever was judged before. */
export class CannotJudge extends Error {
  readonly verdict: "inconclusive" | "skipped";
  constructor(verdict: "inconclusive" | "skipped", reason: string) {
    super(reason);
    this.name = "CannotJudge";
    this.verdict = verdict;
  }
}
