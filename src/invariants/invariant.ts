/**
 * What every invariant is: a statement, and a fold over the time-ordered lines of one stage that ends in one of three
 * verdicts (or "skipped", naming what is missing). State is bounded by what is in flight, so a soak streams through.
 */

import type { Line } from "../history/line.ts";
import type { ClaimVerdict, Level } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { callsOfFold } from "../history/tally.ts";
import { type AboutTime, doubtsAgainst, inDoubt, timeDoubts } from "../history/time-doubts.ts";

export type Finding = {
  verdict: ClaimVerdict;
  /** One sentence for a stranger: why this verdict. */
  reason: string;
  expected: string;
  got: string;
  /** At most ten ids of calls (or ledger charges) that prove it. */
  evidence: string[];
  /** Where the claim is about less than what the invariant is, e.g. only a bound that should be kept is broken. */
  level?: Level;
  /** It is inconclusive because what it is about did not come about. */
  unseen?: true;
};

/** What a judge finds; `expected` is the invariant's statement where it says nothing else. */
export type Found = Omit<Finding, "expected"> & { expected?: string };

type Fold = {
  /**
   * Lines arrive in the order of `lineTimeUs`. `alike`: the line stands for so many calls that were folded, which differ from
   * it in their times and ids alone; those lie between its own (history/tally.ts).
   */
  see(line: Line, alike?: number): void;
  end(): Found;
};

export type Invariant = {
  /** The file's name; a claim's id is `<id>/<stage>`. */
  id: string;
  level: Level;
  /** It compares times, so a host that was busy may take its verdict away. Only a should may be about time. */
  time?: AboutTime;
  /**
   * It can judge calls that were folded: what it is about shows in every call by itself, or in sums. Where it is absent the
   * judge has to see each admitted call with its times, and says so when it cannot.
   */
  folded?: true;
  /** Numbers of the requirements that it defends (contract/requirements.md). */
  spec: number[];
  /** What must hold, in one sentence. */
  statement: string;
  /** A fold over the lines; or what is found already, where what it lacks is known before the first line. */
  judge(facts: StageFacts): Fold | Found;
};

const EVIDENCE_MAX = 10;

/** Collects what is broken and says so in the shape of a `Finding`; the sentences come from the invariant. */
export class Evidence {
  ids: string[] = [];
  count = 0;
  first = "";

  /** `got` says what came instead, for the first breach; later ones only add their id. */
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

/**
 * What the judge is about did not come about. On the reference platform a stage is made to bring it about, so there it is
 * inconclusive; on anybody else's it may not be possible with what the target file names, and is skipped.
 */
export const unseen = (reason: string): Found => ({ ...inconclusive(reason), unseen: true });

/** `missing` names the role, fixture or file that the target lacks. */
export const skipped = (missing: string): Found => ({
  verdict: "skipped",
  reason: `skipped: ${missing}`,
  got: "not judged",
  evidence: [],
});

/** A finding about time as it stands beside what generator and host did in the stage. */
const onThisHost = (finding: Found, { time }: Invariant, { host }: StageFacts): Found => {
  if (time === undefined || host === undefined) return finding;
  const doubts = doubtsAgainst(finding.verdict, timeDoubts(host, time));
  return doubts.length === 0
    ? finding
    : { ...finding, verdict: "inconclusive", reason: inDoubt(doubts, `${finding.verdict}, ${finding.reason}`) };
};

/** What is missing of a history looks like a broken promise, so nothing fails for it; and nothing passes without it. */
const notEachSeen = (finding: Found, unread: number): Found => {
  const why = `${unread} admitted calls were folded into seconds, and this has to see each with its times`;
  if (finding.verdict === "skipped") return finding;
  if (finding.verdict !== "fail") return skipped(`every call whole; ${why}`);
  return { ...finding, verdict: "inconclusive", reason: `${why}; as far as calls were whole: ${finding.reason}` };
};

/** What a stage of a closed loop lacks for every claim about time. */
export const NO_SCHEDULE =
  "moments at which calls were due, which a closed loop has not; use --driver open-loop or --driver k6";

/** The judge of one stage, ready for its lines. One that throws is inconclusive, never a pass. */
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
