/** A stage that is played again, because the machine was disturbed and something stayed open; it and its claims have a suffix. */
import type { Claim } from "./run-document.ts";

const SUFFIX = "-again";

/** Of a stage or a claim. */
export const secondOf = (name: string): string => `${name}${SUFFIX}`;
/** The same for both playings. */
export const eitherOf = (name: string): string => (name.endsWith(SUFFIX) ? name.slice(0, -SUFFIX.length) : name);

export const isUndecided = ({ level, verdict }: Claim): boolean => level === "must" && verdict === "inconclusive";

/** What the first playing could not decide has the verdict of the second, where that decided it; anything else stays. */
export const decidedByBoth = (claims: readonly Claim[]): Claim[] => {
  const byId = new Map(claims.map((claim) => [claim.id, claim]));
  return claims.map((claim) => {
    const second = isUndecided(claim) ? byId.get(secondOf(claim.id)) : undefined;
    if (second?.verdict !== "pass" && second?.verdict !== "fail") return claim;
    const { verdict, got, evidence } = second;
    const reason = `as it was played again (${second.stage}), while the machine was disturbed the first time: ${second.reason}; then it was: ${claim.reason}`;
    return { ...claim, verdict, got, evidence, reason, judged_in: second.id };
  });
};
