/**
 * Whether calls met their objectives, and how sure that is. An objective is about the service and not about these calls
 * alone, so it is met when the whole 95 % interval of the metric keeps the limit, missed when none of it does, and not
 * known otherwise: more calls would settle it. Too few calls are never a pass.
 */
import { routeOf } from "../contract/routes.ts";
import { type CallLine, classOf } from "./line.ts";
import type { Objective } from "./objectives.ts";
import type { Claim } from "./run-document.ts";
import { type Interval, quantileRanks, wilsonInterval } from "./statistics.ts";

export type ObjectiveVerdict = {
  objective: Objective;
  /** `null`: too few calls to say. */
  met: boolean | null;
  /**
   * Milliseconds for a time, from 0 to 1 for a share; `null` where there is none, also because the call at that rank got no
   * answer at all. `low` and `high`: the 95 % interval; of a quantile by order statistics (statistics.ts `quantileRanks`),
   * of a share Wilson's. The largest of all calls is what it is and has none.
   */
  value: number | null;
  low: number | null;
  high: number | null;
  /** Calls that the metric is over. */
  n: number;
};

/** Left by the caller before there was an answer: its own doing, and no fault of the service. */
const isLeft = (call: CallLine): boolean => call.aborted === true && classOf(call.outcome) === "indeterminate";

const isError = ({ outcome }: CallLine): boolean => outcome === "indeterminate" || /^(edge |5\d\d)/.test(outcome);

const isRefusal = (call: CallLine): boolean => classOf(call.outcome) === "refused" && !isError(call);

const isStream = ({ route, ended, events }: CallLine): boolean =>
  ended !== undefined || events !== undefined || (route !== "-" && routeOf(route).stream !== undefined);

/** Streams whose answer came to an end of its own, and answers that are none. */
const WHOLE = new Set<CallLine["ended"]>([undefined, "done", "error_event", "eof"]);

/**
 * How long the caller waited, in milliseconds; `Infinity` for what never came, so that leaving calls unanswered makes no
 * quantile better; `null` for calls that have no such time: refusals, and streams that the caller left.
 */
const waitedMs = (call: CallLine, of: "answer" | "first event"): number | null => {
  if (of === "first event" && !isStream(call)) return null;
  if (call.outcome === "indeterminate") return Number.POSITIVE_INFINITY;
  if (classOf(call.outcome) !== "answered") return null;
  if (of === "first event") {
    if (call.first_event_us !== undefined) return (call.first_event_us - call.intended_us) / 1000;
  } else if (WHOLE.has(call.ended) && call.aborted !== true) return (call.done_us - call.intended_us) / 1000;
  return call.aborted === true ? null : Number.POSITIVE_INFINITY;
};

const finite = (value: number | undefined): number | null =>
  value === undefined || !Number.isFinite(value) ? null : value;

const judge = (objective: Objective, calls: readonly CallLine[]): ObjectiveVerdict => {
  const keeps = (value: number): boolean =>
    objective.operator === "<=" ? value <= objective.limit : value < objective.limit;
  const settled = ({ low, high }: Interval): boolean | null => (keeps(high) ? true : keeps(low) ? null : false);
  if (objective.kind === "share") {
    const n = calls.length;
    const hits = calls.filter(objective.metric === "refusals" ? isRefusal : isError).length;
    const interval = wilsonInterval(hits, n);
    if (interval === null) return { objective, met: null, value: null, low: null, high: null, n };
    return { objective, met: settled(interval), value: hits / n, ...interval, n };
  }
  const sorted = calls
    .map((call) => waitedMs(call, objective.of))
    .filter((waited) => waited !== null)
    .sort((a, b) => a - b);
  const n = sorted.length;
  const value = sorted[Math.max(1, Math.ceil(objective.quantile * n)) - 1];
  if (objective.quantile === 1 || value === undefined) {
    const met = value === undefined ? null : keeps(value);
    return { objective, met, value: finite(value), low: null, high: null, n };
  }
  const ranks = quantileRanks(n, objective.quantile);
  if (ranks === null) return { objective, met: null, value: finite(value), low: null, high: null, n };
  const interval = { low: sorted[ranks.low - 1] as number, high: sorted[ranks.high - 1] as number };
  const told = { low: finite(interval.low), high: finite(interval.high) };
  return { objective, met: settled(interval), value: finite(value), ...told, n };
};

/** One verdict for each objective, in their order. `calls`: of one stage, or of one block at one rate. */
export const judgeObjectives = (objectives: readonly Objective[], calls: readonly CallLine[]): ObjectiveVerdict[] => {
  const own = calls.filter((call) => !isLeft(call));
  return objectives.map((objective) => judge(objective, own));
};

const figure = ({ kind }: Objective, value: number | null): string => {
  if (value === null) return "no answer";
  return kind === "time" ? `${Math.round(value * 10) / 10} ms` : `${Math.round(value * 10_000) / 100} %`;
};

const described = ({ objective, value, low, high, n }: ObjectiveVerdict): string => {
  if (n === 0) return `${objective.metric}: no calls`;
  const interval = low === null && high === null ? "" : `, ${figure(objective, low)} to ${figure(objective, high)}`;
  return `${objective.metric} ${figure(objective, value)} (${n} calls${interval})`;
};

/** The claim `slo/<name>/<stage>`: a should, because times on a shared machine decide nothing alone. */
export const sloClaim = (
  of: { name: string; stage: string; replay: string },
  verdicts: readonly ObjectiveVerdict[],
): Claim => {
  const missed = verdicts.filter(({ met }) => met === false);
  const open = verdicts.filter(({ met }) => met === null);
  const named = (some: readonly ObjectiveVerdict[]): string => some.map(({ objective }) => objective.text).join(", ");
  const reason =
    missed.length > 0
      ? `missed: ${named(missed)}`
      : open.length > 0
        ? `too few calls to say: ${named(open)}`
        : "every objective was met";
  return {
    id: `slo/${of.name}/${of.stage}`,
    stage: of.stage,
    level: "should",
    verdict: missed.length > 0 ? "fail" : open.length > 0 || verdicts.length === 0 ? "inconclusive" : "pass",
    reason: verdicts.length === 0 ? "no objective was stated" : reason,
    expected: named(verdicts),
    got: verdicts.map(described).join("; "),
    spec: [],
    evidence: [],
    replay: of.replay,
  };
};
