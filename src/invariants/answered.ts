/** Judges which share of calls the API itself answered, and not by a server error that the specification does not know. */
import { CODES_OF_THE_GENERATOR } from "../contract/transport-codes.ts";
import type { CallLine } from "../history/line.ts";
import { openBy } from "../history/reason-codes.ts";
import { add, exactInterval, sumOf } from "../history/statistics/statistics.ts";
import { standstillDoubts } from "../history/time-doubts.ts";
import { ownFaults, recoveryUs } from "./evidence/fault-windows.ts";
import { isDefinite, isServerError } from "./evidence/moments.ts";
import { counted, Evidence, type Found, inconclusive, type Judge, passed, unseen } from "./invariant.ts";

/** Tolerated share of unanswered calls, unless `limits.unanswered_share` is stated. */
export const UNANSWERED_SHARE = 0.01;
/** From this many calls on, one unanswered call does not keep the claim open. */
const STRAY_OF = 20;
const NAMED_MAX = 6;

const CLOSED: ReadonlySet<string | undefined> = new Set(["connection_closed", "connection_reset"]);
/** Servers keep an idle connection open for a second or more. */
const IDLE_US = 1_000_000;

/**
 * Whether the call left late on an old connection, which the other side may have closed as idle meanwhile: after a
 * suspended generator goes on, its calls race with the closing of such connections.
 */
const wasStale = ({ outcome, error, connect_us, intended_us, started_us }: CallLine): boolean =>
  outcome === "indeterminate" && CLOSED.has(error) && connect_us === 0 && started_us - intended_us >= IDLE_US;

/** A time-out of ours, or of the server, which answers 408 or closes the connection seconds after the call began. */
const hasTimedOut = ({ outcome, error = "", started_us, done_us }: CallLine): boolean =>
  outcome === "edge 408" ||
  (outcome === "indeterminate" && (/timeout/i.test(error) || (CLOSED.has(error) && done_us - started_us >= IDLE_US)));

/** A process that is started again takes no connection for about this long at most. */
const RESTART_US = 15_000_000;
const NOT_TAKEN: ReadonlySet<string> = new Set(["connection_refused", "connection_reset", "connection_closed"]);
const USED_BEFORE =
  "; all on connections that had been used before: was it restarted, or does it, or a gateway, close idle ones without saying so (keep-alive timeout)?";

/** Follows whether the calls without an answer all fall into one short gap between answers, or on used connections. */
const openGap = () => {
  let [fromUs, toUs, answeredUs] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
  let firstUs = Number.POSITIVE_INFINITY;
  let [hasAnsweredBefore, isOnlyGap, wereUsed] = [false, true, true];
  /** Losses all over a short stage are no gap. */
  const mostUs = (): number => Math.min(RESTART_US, (answeredUs - firstUs) / 2);
  return {
    answered: ({ sent_us, done_us }: CallLine): void => {
      if (toUs < fromUs) hasAnsweredBefore = true;
      firstUs = Math.min(firstUs, sent_us);
      answeredUs = Math.max(answeredUs, done_us);
    },
    missed: ({ error = "", sent_us, connect_us }: CallLine): void => {
      wereUsed &&= CLOSED.has(error) && connect_us === 0;
      isOnlyGap &&= NOT_TAKEN.has(error);
      [fromUs, toUs] = [Math.min(fromUs, sent_us), Math.max(toUs, sent_us)];
    },
    inWords: (): string => {
      if (wereUsed) return USED_BEFORE;
      return hasAnsweredBefore && isOnlyGap && answeredUs > toUs && toUs - fromUs <= mostUs()
        ? `; all within ${((toUs - fromUs) / 1e6).toFixed(1)} s, and it answered before and after: was it restarted?`
        : "";
    },
  };
};

const NOT_ITS_ENVELOPE =
  "none of these answers is in the API's envelopes: does something in front of it limit or block calls, or put pages in place of refusals?";
const OR_ITS_OWN =
  " Or does the API itself refuse in its framework's words, by which no client knows the limit? Such a call sent past the gateway shows who answers (curl -i)";
/** What a gateway answers when the API behind it is away, closes a connection or takes too long. */
const IS_BEHIND = /^edge (?:50[24]|52\d|530)\b/;
const NOT_REACHED =
  "a gateway says so of the API behind it: was that restarted, does it close idle connections before the gateway does, or take longer than the gateway waits?";
/**
 * Answers of a limit outside the API's envelopes. They leave the claim open, because a gateway's limit by address or by key looks the
 * same as the API's own.
 */
const A_LIMIT = /^edge (?:429|503)$/;
/**
 * Reports whether an answer has a content coding that the call did not ask for. No driver reads such an answer, and every browser does, so
 * it leaves the claim open unless its status alone says that a server failed.
 */
const isCoded = ({ outcome, error = "" }: CallLine): boolean =>
  /^edge [2-4]/.test(outcome) && error.startsWith("coded-");
const CODED =
  "these answers are compressed although the calls ask for none (Accept-Encoding: identity), so nothing can read them: let what compresses in front of the API follow that header, or set base_url to an address behind it";

/** Says how many calls were answered 503 outside of our faults; `null` for so few as are tolerated. */
const outage = (down: number, judged: number, limit: number): string | null =>
  (exactInterval(down, judged)?.low ?? 0) <= limit
    ? null
    : `${down} of ${judged} calls were answered 503, and no fault of ours explains it: the key service was unavailable, or a gateway limits calls or had no server to send them to. Such a call sent past the gateway shows who answers (curl -i)`;

const percent = (share: number): string => `${Number((100 * share).toPrecision(3))} %`;

const namedBy = (unanswered: ReadonlyMap<string, number>): string => {
  const most = [...unanswered].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  const named = most.slice(0, NAMED_MAX).map(([what, n]) => `${n} x ${what}`);
  return [...named, ...counted(sumOf(most.slice(NAMED_MAX).map(([, n]) => n)), "others")].join(", ");
};

const whatCame = ({ outcome, error }: CallLine): string => {
  const came = outcome === "indeterminate" ? "no answer" : outcome;
  // Only error codes are named. Sentences may differ from call to call, and equal errors would not be counted together.
  return error === undefined || !/^[\w-]{1,40}$/.test(error) ? came : `${came} (${error})`;
};

/**
 * Judges the share of calls that a gateway (`edge NNN`), a server error or nobody answered. All other judges ignore such calls, so a stage
 * that ended at a gateway would pass them. It fails only if the whole exact interval of the share lies above the limit, where the answers
 * of `A_LIMIT` and coded ones are not counted.
 */
export const answered: Judge = (facts, settling) => {
  const limit = facts.limits.unanswered_share ?? UNANSWERED_SHARE;
  const faults = ownFaults(0, recoveryUs(facts));
  const starved = facts.host === undefined ? [] : standstillDoubts(facts.host, facts.limits.limiter_budget_ms);
  /** Number of unanswered calls by what came instead: `edge 502`, `no answer (connection_reset)`. */
  const unanswered = new Map<string, number>();
  const evidence = new Evidence();
  const gap = openGap();
  let [judged, explained, unsent, nameless, left, waited, stale, atEdge, limited, coded, down] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
  ];

  /** Says what to look into where each call that was not answered ended at a gateway. */
  const advice = (missing: number): string => {
    if (atEdge < missing) return "";
    if (coded === missing) return `; ${CODED}`;
    if (atEdge === judged) return "; is base_url right, and does the gateway in front let these calls through?";
    const isBehind = [...unanswered.keys()].every((what) => IS_BEHIND.test(what));
    return `; ${isBehind ? NOT_REACHED : `${NOT_ITS_ENVELOPE}${limited > 0 ? OR_ITS_OWN : ""}`}`;
  };

  const found = (besides: string): Found => {
    const { ids, count: missing } = evidence;
    const interval = exactInterval(missing, judged);
    const none = "no call is left that the API had to answer";
    if (interval === null) return besides === "" ? inconclusive("not-reached", none) : unseen(none + besides);
    const out = outage(down, judged, limit);
    if (out !== null && missing / judged <= limit) return inconclusive("not-answered", `${out}${besides}`);
    if (missing === 0) return passed(`the API answered all ${judged} calls${besides}`);
    const named = namedBy(unanswered);
    const bounds = `95 % interval ${percent(interval.low)} to ${percent(interval.high)}`;
    const share = `${missing} of ${judged} calls (${percent(missing / judged)}, ${bounds})`;
    const when = missing > 1 ? gap.inWords() : "";
    const what = coded === missing ? "no answer could be read to" : "the API did not answer";
    const reason = `${what} ${share}: ${named}${when}${besides}${advice(missing)}`;
    const open = inconclusive("too-few-calls", `${reason}; too few calls to say whether it is more`, named, ids);
    const isCertain = (exactInterval(missing - limited - coded, judged)?.low ?? 0) > limit;
    const code = 2 * atEdge > missing ? "edge-answered" : "not-answered";
    if (interval.low > limit) return { ...open, ...(isCertain ? { verdict: "fail", code } : openBy(code)), reason };
    if (missing / judged <= limit) return passed(reason);
    return missing === 1 && judged >= STRAY_OF ? passed(`${reason}; a single stray`) : open;
  };
  return {
    see(line, alike = 1) {
      faults.see(line);
      if (line.type !== "call") return;
      // Only admitted calls are folded, in stages without faults.
      if (alike > 1) judged += alike;
      else settling.add(line);
    },
    settled(call) {
      const isLost = call.outcome === "indeterminate";
      const error = call.error ?? "";
      if (faults.overlaps(call)) explained += 1;
      else if (isDefinite(call) && !isServerError(call)) {
        judged += 1;
        if (call.outcome === "503") down += 1;
        gap.answered(call);
      } else if (call.aborted === true || call.slow_reader === true) left += 1;
      else if (isLost && CODES_OF_THE_GENERATOR.has(error)) unsent += 1;
      else if (isLost && error === "dns_failed") nameless += 1;
      else if (starved.length > 0 && hasTimedOut(call)) waited += 1;
      else if (wasStale(call)) stale += 1;
      else {
        judged += 1;
        if (!isLost && !isDefinite(call)) atEdge += 1;
        if (isCoded(call)) coded += 1;
        else if (A_LIMIT.test(call.outcome)) limited += 1;
        gap.missed(call);
        add(unanswered, whatCame(call), 1);
        evidence.breach(call.id, "");
      }
    },
    end() {
      const leftOut = [
        ...counted(explained, "calls met a fault or a change of ours and are left out"),
        ...counted(unsent, "could not be sent by this machine"),
        ...counted(
          nameless,
          "had no address: the name could not be resolved (look at this machine's resolver and at the zone)",
        ),
        ...counted(left, "we gave up ourselves"),
        ...counted(waited, "timed out, here or at the server, while this machine stood still"),
        ...counted(stale, "left seconds late on connections that may have been closed as idle meanwhile"),
      ];
      const bound = `at most ${percent(limit)} of the calls are not (limits.unanswered_share)`;
      const finding = found(leftOut.map((what) => `; ${what}`).join(""));
      const doubted = unsent + nameless + waited + stale;
      if (finding.verdict !== "pass" || doubted <= limit * (judged + doubted)) return { ...finding, bound };
      const why = [...(waited === 0 ? [] : starved), ...leftOut].join("; ");
      const what = `what the API would have answered is not known of ${doubted} calls`;
      const code = waited + unsent > 0 ? "machine-disturbed" : "not-answered";
      return { ...inconclusive(code, `${what}: ${why}`), bound };
    },
  };
};
