import type { Claim } from "./run-document.ts";

/** Makes a claim; by default a *must* without requirement numbers and evidence. */
export const claimOf = (
  parts: Pick<Claim, "id" | "stage" | "verdict" | "reason" | "expected" | "replay"> & Partial<Claim>,
): Claim => ({ level: "must", got: parts.reason, spec: [], evidence: [], ...parts });

/** An inconclusive claim about the run itself. */
export const doubt = (id: string, reason: string, expected: string, replay: string): Claim =>
  claimOf({ id, stage: "run", verdict: "inconclusive", reason, expected, replay });
