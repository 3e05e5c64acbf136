/**
 * Judges objectives, also those of a target file's `slo`, which are for kinds of calls. Judged is the share of calls that violate an
 * objective: it is met or missed if the whole 95 % interval of that share keeps or breaks the limit, else it is open.
 */

import { nearest } from "../contract/nearest.ts";
import { isError } from "../contract/refusals.ts";
import { isStreamed, ROUTE_NAMES } from "../contract/routes.ts";
import { isWholeAnswer } from "../contract/streams.ts";
import { type CallLine, classOf, type FoldLine, type Line, stayMs } from "./line.ts";
import { type Objective, ObjectiveError, parseObjectives } from "./objectives.ts";
import { BROKEN, HELD, type OpenCode, openBy, type Ruling, skippedBy } from "./reason-codes.ts";
import { type Claim, claimOf, type StageHost } from "./run-document.ts";
import { BatchedHistogram, Histogram } from "./statistics/histogram.ts";
import { callsToShow, exactInterval, type Interval, wilsonInterval } from "./statistics/statistics.ts";
import { durationOf, FOLD_SPAN_US } from "./tally.ts";
import { codeOfDoubts, doubtsAgainst, inDoubt, timeDoubts } from "./time-doubts.ts";

/** The probability outside each end of a 95 % interval. */
const ONE_SIDE = 0.025;

export type ObjectiveVerdict = {
  objective: Objective;
  /** `null` if too few calls were seen to tell. */
  met: boolean | null;
  /**
   * Milliseconds for a time, 0 to 1 for a share; `null` where there is none, for example because the call at that rank
   * got no answer. `low` and `high` are the 95 % interval, which a maximum has not.
   */
  value: number | null;
  low: number | null;
  high: number | null;
  /** The calls that the metric covers, and those of them that violate it. */
  n: number;
  against: number;
  /** What the generator or the host did, if a time has no verdict because of that. */
  doubts?: string[];
  doubted_by?: OpenCode;
};

/** The caller left before there was an answer, which is not a failure of the service. */
const isLeft = (call: CallLine): boolean => call.aborted === true && classOf(call.outcome) === "indeterminate";

const isRefusal = (call: CallLine): boolean => classOf(call.outcome) === "refused" && !isError(call.outcome);

/** `Infinity` if nothing came, so that unanswered calls improve no quantile; `null` for refusals and calls that the caller left. */
const waitedMs = (call: CallLine, of: "answer" | "first event"): number | null => {
  if (isLeft(call)) return null;
  if (of === "first event" && call.ended === undefined && call.events === undefined && !isStreamed(call)) return null;
  const kind = classOf(call.outcome);
  if (kind === "indeterminate") return Number.POSITIVE_INFINITY;
  if (kind !== "answered") return null;
  if (of === "first event") {
    if (call.first_event_us !== undefined) return (call.first_event_us - call.intended_us) / 1000;
  } else if (isWholeAnswer(call)) return stayMs(call);
  return call.aborted === true ? null : Number.POSITIVE_INFINITY;
};

const keeps = ({ operator, limit }: Objective, value: number) => (operator === "<=" ? value <= limit : value < limit);

/** `null` if the objective does not cover the call. */
export const violates = (objective: Objective, call: CallLine): boolean | null => {
  if (objective.kind === "time") {
    const waited = waitedMs(call, objective.of);
    return waited === null ? null : !keeps(objective, waited);
  }
  if (isLeft(call)) return null;
  return objective.metric === "refusals" ? isRefusal(call) : isError(call.outcome, call);
};

/** `true` if all of the interval keeps the limit, `false` if none of it does, else `null`. */
const metBy = (isKept: (share: number) => boolean, interval: Interval | null): boolean | null =>
  interval === null ? null : isKept(interval.high) ? true : isKept(interval.low) ? null : false;

/** The wait that is recorded for a call without an answer. The histogram rounds it, so half of it is read back as no answer. */
const NEVER_US = Number.MAX_SAFE_INTEGER;
const msOf = (us: number): number | null => (us >= NEVER_US / 2 ? null : us / 1000);

/** Records waits in microseconds; for a share, 1 for a call that violates the objective, else 0. */
const tallyOf = (objective: Objective) => {
  const isTime = objective.kind === "time";
  const values = new BatchedHistogram();
  let against = 0;
  return {
    see: (call: CallLine): void => {
      const isAgainst = violates(objective, call);
      if (isAgainst === null) return;
      against += Number(isAgainst);
      const us = isTime ? Math.min(NEVER_US, (waitedMs(call, objective.of) as number) * 1000) : Number(isAgainst);
      values.record(us, call.intended_us);
    },
    /** Folded calls are all admitted: none is a refusal or an error. */
    fold: (line: FoldLine): void => {
      const kept = new Histogram();
      kept.record(0, line.offered);
      const all = isTime ? durationOf(line, objective.of === "answer" ? "latency" : "first_event") : kept;
      if (all === null) return;
      values.merge(all, line.at_us, FOLD_SPAN_US);
      if (isTime) for (const { us, count } of all.values()) if (!keeps(objective, us / 1000)) against += count;
    },
    verdict: (): ObjectiveVerdict => {
      const { n } = values.whole;
      // Refusals come in bursts, so calls count by the effective sample size.
      const worth = values.worth(isTime ? objective.limit * 1000 : 0);
      const hits = n === 0 ? null : (against * worth) / n;
      const shown = { objective, value: n === 0 ? null : against / n, low: null, high: null, n, against };
      if (!isTime) {
        const interval = hits === null ? null : wilsonInterval(hits, worth);
        return { ...shown, met: metBy((one) => keeps(objective, one), interval), ...interval };
      }
      const { quantile } = objective;
      const us = values.whole.quantile(quantile);
      const value = us === null ? null : msOf(us);
      if (quantile === 1) return { ...shown, value, met: us === null ? null : against === 0 };
      const slower = hits === null ? null : exactInterval(Math.round(hits), worth);
      const interval = values.interval(quantile);
      const bounds = interval && { low: msOf(interval.low), high: msOf(interval.high) };
      return { ...shown, value, met: metBy((one) => one <= 1 - quantile, slower), ...bounds };
    },
  };
};

/** Leaves a verdict about time open if generator or host may explain it. */
const onThisHost = (verdict: ObjectiveVerdict, host: StageHost | undefined): ObjectiveVerdict => {
  const { objective, met, n } = verdict;
  if (host === undefined || met === null || objective.kind === "share") return verdict;
  const tail = Math.max(1 - objective.quantile, 1 / n);
  const about = { tail, limitMs: objective.limit };
  const doubts = doubtsAgainst(met ? "pass" : "fail", timeDoubts(host, about));
  return doubts.length === 0 ? verdict : { ...verdict, met: null, doubts, doubted_by: codeOfDoubts(host, about) };
};

/** A fold over the calls of one stage, or of one block at one rate, in any order. */
export const objectivesTally = (objectives: readonly Objective[]) => {
  const tallies = objectives.map(tallyOf);
  let calls = 0;
  return {
    calls: (): number => calls,
    see: (call: CallLine): void => {
      calls += 1;
      for (const tally of tallies) tally.see(call);
    },
    fold: (line: FoldLine): void => {
      calls += line.offered;
      for (const tally of tallies) tally.fold(line);
    },
    /** `host` may put times in doubt. */
    verdicts: (host?: StageHost): ObjectiveVerdict[] => tallies.map((tally) => onThisHost(tally.verdict(), host)),
  };
};

export const judgeObjectives = (objectives: readonly Objective[], calls: Iterable<CallLine>): ObjectiveVerdict[] => {
  const tally = objectivesTally(objectives);
  for (const call of calls) tally.see(call);
  return tally.verdicts();
};

const described = ({ objective: { kind, metric }, value, low, high, n }: ObjectiveVerdict): string => {
  if (n === 0) return `${metric}: no calls`;
  const figure = (of: number | null): string => {
    if (of === null) return "no answer";
    return kind === "time" ? `${Math.round(of * 10) / 10} ms` : `${Math.round(of * 10_000) / 100} %`;
  };
  const interval = low === null && high === null ? "" : `, ${figure(low)} to ${figure(high)}`;
  return `${metric} ${figure(value)} (${n} calls${interval})`;
};

/** The objective as text, with the number of calls that a percentile without an interval needs. */
const wanting = ({ objective, n, against, low }: ObjectiveVerdict): string => {
  const { text } = objective;
  if (objective.kind === "share" || objective.quantile === 1 || low !== null || n === 0) return text;
  const tail = 1 - objective.quantile;
  if (against > tail * n) return text;
  const needed = callsToShow(tail, against, ONE_SIDE);
  return needed > n
    ? `${text} (${n} calls came; with ${against} above the limit it takes ${needed})`
    : `${text} (${n} calls came, but those above the limit came together)`;
};

const namesOf = (some: readonly ObjectiveVerdict[]): string => some.map(({ objective }) => objective.text).join(", ");

const together = (verdicts: readonly ObjectiveVerdict[]): Ruling & Pick<Claim, "reason"> => {
  if (verdicts.length === 0) return { ...openBy("not-stated"), reason: "no objective was stated" };
  const missed = verdicts.filter(({ met }) => met === false);
  if (missed.length > 0) return { ...BROKEN, reason: `missed: ${namesOf(missed)}` };
  const doubted = verdicts.filter(({ doubts }) => doubts !== undefined);
  if (doubted.length > 0) {
    const doubts = [...new Set(doubted.flatMap((one) => one.doubts ?? []))];
    const by = doubted[0]?.doubted_by ?? "machine-disturbed";
    return { ...openBy(by), reason: inDoubt(doubts, `${namesOf(doubted)} would have a verdict`) };
  }
  const open = verdicts.filter(({ met }) => met === null);
  return open.length > 0
    ? { ...openBy("too-few-calls"), reason: `too few calls to say: ${open.map(wanting).join(", ")}` }
    : { ...HELD, reason: "every objective was met" };
};

/** The claim `slo/<name>/<stage>`: a should, because times on a shared machine decide nothing alone. */
export const sloClaim = (
  { name, stage, replay }: { name: string; stage: string; replay: string },
  verdicts: readonly ObjectiveVerdict[],
): Claim => {
  const [id, got] = [`slo/${name}/${stage}`, verdicts.map(described).join("; ")];
  const objectives = verdicts.map(({ objective }) => objective);
  const about = { id, stage, level: "should" as const, expected: namesOf(verdicts), objectives, got, replay };
  return claimOf({ ...about, ...together(verdicts) });
};

/** The `slo` of a target file: kinds of calls, and the objectives of each. */
type StatedObjectives = { readonly slo?: Readonly<Record<string, string>> };

/** The names that `slo` may have, and the routes that each means. */
const KINDS: ReadonlyMap<string, RegExp> = new Map([
  ["all", /^/],
  ["catalog", /^design\.(styles|samples|themes)$/],
  ["chat", /^chat\./],
  ["design", /^design\./],
  ["exchange", /^sdk\.sessions$/],
  ["maps", /^maps\./],
  ["poi", /^poi\./],
  ...ROUTE_NAMES.map((name) => [name, new RegExp(`^${RegExp.escape(name)}$`)] as const),
]);

const isMeant = (name: string): ((route: string) => boolean) => {
  const kind = KINDS.get(name);
  if (kind !== undefined) return (route) => kind.test(route);
  const names = [...KINDS.keys()];
  const meant = nearest(name, names);
  const others = meant === null ? "" : `; did you mean ${meant}?`;
  throw new ObjectiveError(`slo.${name}: expected the name of one of ${names.join(", ")}${others}`);
};

/** Throws `ObjectiveError` for a name or an objective that cannot be read. */
export const checkObjectives = ({ slo = {} }: StatedObjectives): void => {
  for (const [name, text] of Object.entries(slo)) {
    isMeant(name);
    parseObjectives(text);
  }
};

export const openObjectives = ({ slo = {} }: StatedObjectives, stage: string) => {
  const kinds = Object.entries(slo).map(([name, text]) => ({
    name,
    meant: isMeant(name),
    tally: objectivesTally(parseObjectives(text)),
    text,
    /** Calls of this kind that were folded together with other kinds, so that their times are not known. */
    mixed: 0,
  }));
  return {
    see: (line: Line): void => {
      for (const kind of kinds) {
        if (line.type === "call" && kind.meant(line.route)) kind.tally.see(line);
        if (line.type !== "fold") continue;
        const meant = line.kinds.filter(({ call }) => kind.meant(call.route)).reduce((sum, { n }) => sum + n, 0);
        if (meant === line.offered) kind.tally.fold(line);
        else kind.mixed += meant;
      }
    },
    /** Claims `slo/<name>/<stage>` for the kinds that were called. `lacking`: why none of them can be judged. */
    claims: (replay: string, host?: StageHost, lacking?: string): Claim[] =>
      kinds
        .filter(({ tally, mixed }) => tally.calls() + mixed > 0)
        .map(({ name, text, tally, mixed }) => {
          const folded = `every call whole; ${mixed} calls of this kind were folded together with others`;
          const missing = lacking ?? (mixed === 0 ? null : folded);
          if (missing === null) return sloClaim({ name, stage, replay }, tally.verdicts(host));
          return claimOf({
            ...{ id: `slo/${name}/${stage}`, stage, level: "should", ...skippedBy("not-recorded"), replay },
            ...{ reason: `skipped: needs ${missing}`, expected: text, got: "not judged" },
          });
        }),
  };
};
