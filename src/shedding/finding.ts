/** A finding: the verdict of a judge with its reason, before it becomes a claim. */
import { type OpenCode, openBy, type Ruling, skippedBy } from "../history/reason-codes.ts";
import type { Claim, StageHost } from "../history/run-document.ts";
import { doubtsAgainst, timeDoubts } from "../history/time-doubts.ts";

export type Finding = Ruling & Pick<Claim, "reason"> & Partial<Pick<Claim, "got" | "evidence">>;

export const found = (ruling: Ruling, reason: string, got = reason): Finding => ({ ...ruling, reason, got });
export const open = (code: OpenCode, reason: string, got = reason): Finding => found(openBy(code), reason, got);
export const skipped = (code: OpenCode, lacking: string): Finding =>
  found(skippedBy(code), `skipped: needs ${lacking}`);

/** Returns what on this machine, besides late calls, may explain a failure. `but` overrides facts of the host. */
export const machineDoubts = (host: StageHost | undefined, limitMs: number, but: Partial<StageHost> = {}): string[] => {
  if (host === undefined) return [];
  return doubtsAgainst("fail", timeDoubts({ ...host, lag_ms: [], rate_error: null, ...but }, { tail: 0.01, limitMs }));
};
