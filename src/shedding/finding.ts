/** A finding: the verdict of a judge with its reason, before it becomes a claim. */
import type { Claim, StageHost } from "../history/run-document.ts";
import { doubtsAgainst, timeDoubts } from "../history/time-doubts.ts";

export type Finding = Pick<Claim, "verdict" | "reason"> & Partial<Pick<Claim, "got" | "evidence">>;

export const found = (verdict: Claim["verdict"], reason: string, got = reason): Finding => ({ verdict, reason, got });
export const open = (reason: string, got = reason): Finding => found("inconclusive", reason, got);
export const skipped = (lacking: string): Finding => found("skipped", `skipped: needs ${lacking}`);

/** Returns what on this machine, besides late calls, may explain a failure. `but` overrides facts of the host. */
export const machineDoubts = (host: StageHost | undefined, limitMs: number, but: Partial<StageHost> = {}): string[] => {
  if (host === undefined) return [];
  return doubtsAgainst("fail", timeDoubts({ ...host, lag_ms: [], rate_error: null, ...but }, { tail: 0.01, limitMs }));
};
