/** Claims for tests. */
import type { Claim } from "./run-document.ts";

/** A must that holds; its stage is what stands behind the invariant's name. */
export const claimOf = (id: string, over: Partial<Claim> = {}): Claim => ({
  id,
  stage: id.slice(id.indexOf("/") + 1),
  level: "must",
  verdict: "pass",
  reason: "",
  expected: "",
  got: "",
  spec: [],
  evidence: [],
  replay: "",
  ...over,
});
