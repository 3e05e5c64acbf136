/** An invariant: a statement, and a fold over one stage's lines in order of time, with bounded state; how a stage is judged. */
import { type CallLine, type Line, lineTimeUs } from "../history/line.ts";
import { BROKEN, HELD, type OpenCode, openBy, type Ruling, skippedBy } from "../history/reason-codes.ts";
import type { Claim, Level, StageFacts } from "../history/run-document.ts";
import { callsOfFold } from "../history/tally.ts";
import { type AboutTime, codeOfDoubts, doubtsAgainst, inDoubt, timeDoubts } from "../history/time-doubts.ts";
import { isDefinite, openSettling, type Settling } from "./evidence/moments.ts";

type Judged = Ruling & {
  reason: string;
  got: string;
  /** At most ten ids of calls or charges. */
  evidence: string[];
  /** The claim's level, if only a weaker bound is broken. */
  level?: Level;
};

/** `bound`: the figure that completes the statement. */
export type Found = Judged & { bound?: string };

export type Finding = Judged & { expected: string };

type Fold = {
  /** Lines come in the order of `lineTimeUs`. `alike`: the line stands for this many folded calls (history/tally.ts). */
  see?(line: Line, alike?: number): void;
  settled?(call: CallLine): void;
  end(): Found;
};

/** Returns a fold, or a finding if the facts alone decide. Calls added to `settling` come back by `settled`. */
export type Judge = (facts: StageFacts, settling: Pick<Settling, "add" | "waiting">) => Fold | Found;

export type Invariant = {
  /** Claims are `<id>/<stage>`. */
  id: string;
  level: Level;
  /** Set if the invariant compares times, so that a busy host may make it inconclusive. Only for shoulds. */
  time?: AboutTime;
  /** Set if the invariant can judge folded calls. Otherwise they make it skipped or inconclusive. */
  folded?: true;
  /** Set if the invariant rests on the ledger or on what an organization had used. */
  charges?: true;
  /** Set if no answer to a call is needed to see a breach (`Claim`). */
  stands_alone?: true;
  /** Requirements that it defends (contract/requirements.md). */
  spec: number[];
  statement: string;
  judge: Judge;
};

const EVIDENCE_MAX = 10;

/** The first ids and the first description of what speaks against the target. */
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

/** For a reason that contains the number of breaches. */
export const failedBy = (reason: string, { first, ids }: Evidence): Found => {
  return { ...BROKEN, reason, got: first, evidence: ids };
};

export const failed = (reason: string, evidence: Evidence): Found =>
  failedBy(evidence.count > 1 ? `${reason} (${evidence.count} times)` : reason, evidence);

export const passed = (reason: string): Found => ({ ...HELD, reason, got: "as expected", evidence: [] });

export const inconclusive = (
  code: OpenCode,
  reason: string,
  got = "not enough to judge by",
  evidence: string[] = [],
): Found => ({ ...openBy(code), reason, got, evidence });

/** The situation did not occur: inconclusive on the reference platform, whose stages are made to produce it; skipped elsewhere. */
export const unseen = (reason: string): Found => inconclusive("not-seen", reason);

export const skipped = (code: OpenCode, missing: string): Found => {
  return { ...skippedBy(code), reason: `skipped: needs ${missing}`, got: "not judged", evidence: [] };
};

/** For judges that need every call. Skipped, because a longer run would not help. `why`: what another caller may have done. */
export const skippedWhenShared = (why: string): Found =>
  skipped(
    "not-exclusive",
    `"exclusive": true in the target file, which does not state that nobody else calls it; ${why}`,
  );

export const counted = (n: number, what: string): string[] => (n === 0 ? [] : [`${n} ${what}`]);

/** Doubts about generator and host make a finding about time inconclusive. */
const onThisHost = (finding: Found, { time }: Invariant, { host }: StageFacts): Found => {
  const doubts = time && host ? doubtsAgainst(finding.verdict, timeDoubts(host, time)) : [];
  if (doubts.length === 0 || !time || !host) return finding;
  return {
    ...finding,
    ...openBy(codeOfDoubts(host, time)),
    reason: inDoubt(doubts, `${finding.verdict}, ${finding.reason}`),
  };
};

/** Two accounts of the same charges that contradict each other: which one is wrong cannot be seen from outside. */
const onTheseCharges = (finding: Found, { charges }: Invariant, { charges_differ: differ = [] }: StageFacts): Found => {
  const [one] = differ;
  if (charges !== true || one === undefined || !(finding.verdict === "pass" || finding.verdict === "fail"))
    return finding;
  const both = `the ledger has ${one.ledger} map loads of ${one.org} and its map_loads_used rose by ${one.metered}`;
  const why = `${both}, so one of the two is wrong, or late: find out which`;
  return {
    ...finding,
    ...openBy("accounts-differ"),
    reason: `${why}; by the ledger: ${finding.verdict}, ${finding.reason}`,
  };
};

/** Folded calls can look like a breach and hide one, so a judge that needs every call cannot decide. */
const notEachSeen = (finding: Found, unread: number): Found => {
  const why = `${unread} admitted calls were folded into seconds, and this has to see each with its times`;
  if (unread === 0 || finding.verdict === "skipped") return finding;
  if (finding.verdict !== "fail") return skipped("not-recorded", `every call whole; ${why}`);
  return { ...finding, ...openBy("not-recorded"), reason: `${why}; as far as calls were whole: ${finding.reason}` };
};

/** What a closed-loop stage lacks for claims about time. */
export const NO_SCHEDULE =
  "moments at which calls were due, which a closed loop has not; use --driver open-loop or --driver k6";

/** Opens a judge. A judge that throws is inconclusive. */
export const openJudge = (invariant: Invariant, facts: StageFacts): { see(line: Line): void; end(): Finding } => {
  const { statement, folded, time } = invariant;
  let broken: Found | null = null;
  const guarded = <T>(act: () => T): T | null => {
    try {
      return broken === null ? act() : null;
    } catch (error) {
      broken = inconclusive(
        "program-failed",
        `the judge itself failed: ${error instanceof Error ? error.message : String(error)}`,
      );
      return null;
    }
  };
  let unread = 0;
  const settling = openSettling((call) => fold?.settled?.(call));
  const lacksSchedule = facts.closed_loop === true && time !== undefined;
  const judge = guarded(() =>
    lacksSchedule ? skipped("not-recorded", NO_SCHEDULE) : invariant.judge(facts, settling),
  );
  const fold = judge !== null && "end" in judge ? judge : null;
  const take = (line: Line, alike?: number): void => {
    settling.reach(line);
    fold?.see?.(line, alike);
  };
  const see = (line: Line): void => {
    if (line.type !== "fold") take(line);
    else if (folded !== true) unread += line.offered;
    else for (const { call, n } of callsOfFold(line)) take(call, n);
  };
  const end = (): Found => {
    settling.finish();
    const own = fold === null ? (judge as Found) : fold.end();
    const believed = onTheseCharges(onThisHost(own, invariant, facts), invariant, facts);
    const finding = notEachSeen(believed, unread);
    const isMadeToBeSeen = facts.reference === true && facts.incidental !== true;
    const isUnseen = finding.verdict === "inconclusive" && finding.code === "not-seen";
    if (!isUnseen || isMadeToBeSeen) return finding;
    return { ...skipped("not-seen", ""), reason: `skipped: not seen on this target: ${finding.reason}` };
  };
  return {
    see: (line) => void guarded(() => see(line)),
    end: () => {
      const { bound, ...finding } = guarded(end) ?? (broken as unknown as Found);
      return { ...finding, expected: bound === undefined ? statement : `${statement}: ${bound}` };
    },
  };
};

export const inOrder = (lines: readonly Line[]): Line[] => lines.toSorted((a, b) => lineTimeUs(a) - lineTimeUs(b));

/** A cut-off stage's failures are inconclusive, because what is missing looks like a breach. */
export const ofCutOffStage = (claim: Claim): Claim =>
  claim.verdict === "fail"
    ? { ...claim, ...openBy("cut-off"), reason: `the stage was cut off; as far as it got: ${claim.reason}` }
    : claim;

const isOpen = ({ verdict }: Finding): boolean => verdict === "fail" || verdict === "inconclusive";

/** Each line goes to all judges, in the order of `lineTimeUs`. */
export const openJudges = (invariants: readonly Invariant[], facts: StageFacts) => {
  const judges = invariants.map((invariant) => ({ invariant, judge: openJudge(invariant, facts) }));
  let calls = 0;
  let unanswered = 0;
  return {
    see: (line: Line): void => {
      if (line.type === "call") {
        calls += 1;
        if (!isDefinite(line)) unanswered += 1;
      } else if (line.type === "fold") calls += line.offered;
      for (const { judge } of judges) judge.see(line);
    },
    claims: (replay: string): Claim[] => {
      const found = judges.map(({ invariant, judge }) => ({ invariant, finding: judge.end() }));
      const isOfRest =
        unanswered > 0 && found.some(({ invariant, finding }) => invariant.id === "answered" && isOpen(finding));
      const rest = `; judged on ${calls - unanswered} of ${calls} calls, which the API answered`;
      return found.map(({ invariant, finding }) => {
        const { id, level, spec, stands_alone } = invariant;
        const saysOfHowMany = isOfRest && id !== "answered" && finding.verdict !== "skipped";
        const reason = saysOfHowMany ? finding.reason + rest : finding.reason;
        const about = { id: `${id}/${facts.stage}`, stage: facts.stage, level, ...(stands_alone && { stands_alone }) };
        return { ...about, ...finding, reason, spec, replay };
      });
    },
  };
};

export const judgeStage = (
  invariants: readonly Invariant[],
  facts: StageFacts,
  ordered: Iterable<Line>,
  replay: string,
): Claim[] => {
  const judges = openJudges(invariants, facts);
  for (const line of ordered) judges.see(line);
  return judges.claims(replay);
};
