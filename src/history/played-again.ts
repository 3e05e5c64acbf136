/** A stage is played again, under a name with a suffix, if the machine was disturbed and a claim stayed open. */
import type { Claim } from "./run-document.ts";

const SUFFIX = "-again";

/** The name that a stage or a claim has when it is played again. */
export const secondOf = (name: string): string => `${name}${SUFFIX}`;
/** The name without the suffix, which both plays share. */
export const eitherOf = (name: string): string => (name.endsWith(SUFFIX) ? name.slice(0, -SUFFIX.length) : name);

export const isUndecided = ({ level, verdict }: Claim): boolean => level === "must" && verdict === "inconclusive";

/** Gives each *must* that the first play left open the verdict of the second play, if that has one. */
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
