/**
 * An invariant: a statement, and a fold over one stage's lines in order of time, with bounded state, so that a soak can be judged
 * as it runs.
 */

import type { Line } from "../history/line.ts";
import type { ClaimVerdict, Level } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { callsOfFold } from "../history/tally.ts";
import { type AboutTime, doubtsAgainst, inDoubt, timeDoubts } from "../history/time-doubts.ts";

export type Finding = {
  verdict: ClaimVerdict;
  /** One sentence. */
  reason: string;
  expected: string;
  got: string;
  /** At most ten ids of calls or charges. */
  evidence: string[];
  /** Set if only a weaker bound is broken. */
  level?: Level;
  /** Inconclusive, because the situation did not occur. */
  unseen?: true;
};

/** `expected` defaults to the invariant's statement. */
export type Found = Omit<Finding, "expected"> & { expected?: string };

type Fold = {
  /**
   * Takes lines in the order of `lineTimeUs`. `alike`: the line stands for so many folded calls, which differ in ids and times
   * only (history/tally.ts).
   */
  see(line: Line, alike?: number): void;
  end(): Found;
};

export type Invariant = {
  /** The file's name; claims are `<id>/<stage>`. */
  id: string;
  level: Level;
  /** It compares times, so a busy host may make it inconclusive. Shoulds only. */
  time?: AboutTime;
  /** It can judge folded calls. Otherwise they make it skipped or inconclusive. */
  folded?: true;
  /** Requirements that it defends (contract/requirements.md). */
  spec: number[];
  statement: string;
  /** Returns a fold, or a finding if the facts alone decide. */
  judge(facts: StageFacts): Fold | Found;
};

const EVIDENCE_MAX = 10;

/** Counts breaches; keeps the first ids and the first description. */
export class Evidence {
  ids: string[] = [];
  count = 0;
  first = "";

  breach(id: string, got: string): void {
    if (this.count === 0) this.first = got;
    this.count += 1;
    if (this.ids.length < EVIDENCE_MAX) this.ids.push(id);
  }
}

export const failed = (reason: string, evidence: Evidence): Found => ({
  verdict: "fail",
  reason: evidence.count > 1 ? `${reason} (${evidence.count} times)` : reason,
  got: evidence.first,
  evidence: evidence.ids,
});

export const passed = (reason: string): Found => ({ verdict: "pass", reason, got: "as expected", evidence: [] });

export const inconclusive = (reason: string, got = "not enough to judge by"): Found => ({
  verdict: "inconclusive",
  reason,
  got,
  evidence: [],
});

/** The situation did not occur: inconclusive on the reference platform, whose stages are made to produce it; skipped elsewhere. */
export const unseen = (reason: string): Found => ({ ...inconclusive(reason), unseen: true });

/** `missing`: what the target lacks. */
export const skipped = (missing: string): Found => ({
  verdict: "skipped",
  reason: `skipped: ${missing}`,
  got: "not judged",
  evidence: [],
});

/** Doubts about generator and host make a finding about time inconclusive. */
const onThisHost = (finding: Found, { time }: Invariant, { host }: StageFacts): Found => {
  if (time === undefined || host === undefined) return finding;
  const doubts = doubtsAgainst(finding.verdict, timeDoubts(host, time));
  return doubts.length === 0
    ? finding
    : { ...finding, verdict: "inconclusive", reason: inDoubt(doubts, `${finding.verdict}, ${finding.reason}`) };
};

/** Incomplete history may look like a breach and hide others. */
const notEachSeen = (finding: Found, unread: number): Found => {
  const why = `${unread} admitted calls were folded into seconds, and this has to see each with its times`;
  if (finding.verdict === "skipped") return finding;
  if (finding.verdict !== "fail") return skipped(`every call whole; ${why}`);
  return { ...finding, verdict: "inconclusive", reason: `${why}; as far as calls were whole: ${finding.reason}` };
};

/** What a closed-loop stage lacks for claims about time. */
export const NO_SCHEDULE =
  "moments at which calls were due, which a closed loop has not; use --driver open-loop or --driver k6";

/** Opens a judge. A judge that throws is inconclusive. */
export const openJudge = (invariant: Invariant, facts: StageFacts): { see(line: Line): void; end(): Finding } => {
  let broken: Found | null = null;
  const guarded = <T>(act: () => T): T | null => {
    try {
      return broken === null ? act() : null;
    } catch (error) {
      const what = error instanceof Error ? error.message : String(error);
      broken = inconclusive(`the judge itself failed: ${what}`);
      return null;
    }
  };
  const lacksSchedule = facts.closed_loop === true && invariant.time !== undefined;
  const judge = guarded(() => (lacksSchedule ? skipped(NO_SCHEDULE) : invariant.judge(facts)));
  const fold = judge !== null && "see" in judge ? judge : null;
  let unread = 0;
  const see = (line: Line): void => {
    if (line.type !== "fold") fold?.see(line);
    else if (invariant.folded !== true) unread += line.offered;
    else for (const { call, n } of callsOfFold(line)) fold?.see(call, n);
  };
  const end = (): Found => {
    const own = onThisHost(fold === null ? (judge as Found) : fold.end(), invariant, facts);
    const finding = unread === 0 ? own : notEachSeen(own, unread);
    const isMadeToBeSeen = facts.reference === true && facts.incidental !== true;
    if (finding.unseen !== true || isMadeToBeSeen) return finding;
    return skipped(`not seen on this target: ${finding.reason}`);
  };
  return {
    see: (line) => void guarded(() => see(line)),
    end: () => ({ expected: invariant.statement, ...(guarded(end) ?? (broken as unknown as Found)) }),
  };
};
