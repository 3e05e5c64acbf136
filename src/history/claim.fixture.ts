/** Claims for tests. */
import type { ReasonCode } from "./reason-codes.ts";
import type { Claim, ClaimVerdict } from "./run-document.ts";

const CODES = { pass: "held", fail: "broken", inconclusive: "too-few-calls", skipped: "not-stated" } as const;

export type Over = Partial<Omit<Claim, "verdict" | "code"> & { verdict: ClaimVerdict; code: ReasonCode }>;

/** A must that holds; its stage is what stands behind the invariant's name. */
export const claimOf = (id: string, over: Over = {}): Claim =>
  ({
    id,
    stage: id.slice(id.indexOf("/") + 1),
    level: "must",
    verdict: "pass",
    code: CODES[over.verdict ?? "pass"],
    reason: "",
    expected: "",
    got: "",
    spec: [],
    evidence: [],
    replay: "",
    ...over,
  }) as Claim;
