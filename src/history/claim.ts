import type { Claim } from "./run-document.ts";

/** Makes a claim from what is its own; the rest is as in most claims: a *must*, about no numbered item, without evidence. */
export const claimOf = (
  parts: Pick<Claim, "id" | "stage" | "verdict" | "reason" | "expected" | "replay"> & Partial<Claim>,
): Claim => ({ level: "must", got: parts.reason, spec: [], evidence: [], ...parts });

/** A claim about the run itself that nobody can decide. */
export const doubt = (id: string, reason: string, expected: string, replay: string): Claim =>
  claimOf({ id, stage: "run", verdict: "inconclusive", reason, expected, replay });
