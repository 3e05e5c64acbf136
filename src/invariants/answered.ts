/**
 * Counts calls without an answer of the API: a gateway's answer (`edge NNN`) or none. All other judges ignore them, so without
 * this one a stage that ended at a gateway would pass. Leaves out calls that our own faults explain, that we gave up, or that
 * could not be sent. Fails only if the exact interval of the share is above the limit.
 */
import { CODES_OF_THE_GENERATOR } from "../contract/transport-codes.ts";
import type { CallLine } from "../history/line.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { exactInterval } from "../history/statistics/statistics.ts";
import { standstillDoubts } from "../history/time-doubts.ts";
import { OwnFaults, recoveryUs } from "./evidence/fault-windows.ts";
import { isDefinite, Settling } from "./evidence/moments.ts";
import { Evidence, type Found, failed, type Invariant, inconclusive, passed, unseen } from "./invariant.ts";

const EXPECTED = "what no fault of ours explains is answered by the API itself, and not by a gateway or by nobody";

/** Unless `limits.unanswered_share` is stated. */
const UNANSWERED_SHARE = 0.01;
/** With at least this many calls, a single unanswered one is a stray. */
const STRAY_OF = 20;
/** Statuses and errors named in the reason. */
const NAMED_MAX = 6;

const TIMEOUT = /timeout/i;

const percent = (share: number): string => `${Number((100 * share).toPrecision(3))} %`;

type AnsweredCount = {
  judged: number;
  /** By what came instead: `edge 502`, `no answer (connection_reset)`. */
  unanswered: ReadonlyMap<string, number>;
  /** Calls left out and why, as ends of a sentence. */
  leftOut: readonly string[];
  evidence: readonly string[];
};

const namedBy = (unanswered: ReadonlyMap<string, number>): string => {
  const most = [...unanswered].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  const rest = most.slice(NAMED_MAX).reduce((sum, [, n]) => sum + n, 0);
  const named = most.slice(0, NAMED_MAX).map(([what, n]) => `${n} x ${what}`);
  return [...named, ...(rest === 0 ? [] : [`${rest} others`])].join(", ");
};

const foundBy = (counted: AnsweredCount, limit: number): Found => {
  const { judged, unanswered, leftOut } = counted;
  const besides = leftOut.map((what) => `; ${what}`).join("");
  const missing = [...unanswered.values()].reduce((sum, n) => sum + n, 0);
  const interval = exactInterval(missing, judged);
  if (interval === null) {
    const why = "no call is left that the API had to answer";
    return leftOut.length > 0 ? unseen(why + besides) : inconclusive(why);
  }
  if (missing === 0) return passed(`the API answered all ${judged} calls${besides}`);
  const evidence = new Evidence();
  evidence.ids = [...counted.evidence];
  evidence.first = namedBy(unanswered);
  const { low, high } = interval;
  const share = `${missing} of ${judged} calls (${percent(missing / judged)}, 95 % interval ${percent(low)} to ${percent(high)})`;
  const reason = `the API did not answer ${share}: ${evidence.first}${besides}`;
  if (low > limit) return failed(reason, evidence);
  if (missing / judged <= limit) return passed(reason);
  if (missing === 1 && judged >= STRAY_OF) return passed(`${reason}; a single stray`);
  return {
    ...inconclusive(`${reason}; too few calls to say whether it is more`, evidence.first),
    evidence: evidence.ids,
  };
};

const whatCame = ({ outcome, error }: CallLine): string => {
  const came = outcome === "indeterminate" ? "no answer" : outcome;
  // Error codes only: a sentence may differ from call to call.
  return error === undefined || !/^[\w-]{1,40}$/.test(error) ? came : `${came} (${error})`;
};

const add = (counts: Map<string, number>, what: string, n: number): void =>
  void counts.set(what, (counts.get(what) ?? 0) + n);

export const answered: Invariant = {
  id: "answered",
  level: "must",
  folded: true,
  spec: [],
  statement: EXPECTED,
  judge(facts: StageFacts) {
    const faults = new OwnFaults(0, recoveryUs(facts));
    const starved = facts.host === undefined ? [] : standstillDoubts(facts.host, facts.limits.limiter_budget_ms);
    const unanswered = new Map<string, number>();
    const evidence: string[] = [];
    let judged = 0;
    let explained = 0;
    let unsent = 0;
    let left = 0;
    let waited = 0;

    const settling = new Settling((call) => {
      if (faults.overlaps(call)) explained += 1;
      else if (isDefinite(call)) judged += 1;
      else if (call.aborted === true || call.slow_reader === true) left += 1;
      else if (call.outcome === "indeterminate" && CODES_OF_THE_GENERATOR.has(call.error ?? "")) unsent += 1;
      else if (starved.length > 0 && call.outcome === "indeterminate" && TIMEOUT.test(call.error ?? "")) waited += 1;
      else {
        judged += 1;
        add(unanswered, whatCame(call), 1);
        if (evidence.length < 10) evidence.push(call.id);
      }
    });
    return {
      see(line, alike = 1) {
        settling.reach(line);
        faults.see(line);
        if (line.type !== "call") return;
        // Only admitted calls are folded, in stages without faults.
        if (alike > 1) judged += alike;
        else settling.add(line);
      },
      end() {
        settling.finish();
        const leftOut = [
          ...(explained === 0 ? [] : [`${explained} calls met a fault or a change of ours and are left out`]),
          ...(unsent === 0 ? [] : [`${unsent} could not be sent by this machine`]),
          ...(left === 0 ? [] : [`${left} we gave up ourselves`]),
          ...(waited === 0 ? [] : [`${waited} timed out while this machine stood still`]),
        ];
        const limit = facts.limits.unanswered_share ?? UNANSWERED_SHARE;
        const expected = `${EXPECTED}: at most ${percent(limit)} of the calls are not (limits.unanswered_share)`;
        const found = foundBy({ judged, unanswered, leftOut, evidence }, limit);
        const doubted = unsent + waited;
        if (found.verdict !== "pass" || doubted <= limit * (judged + doubted)) return { ...found, expected };
        const why = [...(waited === 0 ? [] : starved), ...leftOut].join("; ");
        const what = `what the API would have answered is not known of ${doubted} calls`;
        return { ...inconclusive(`${what}: ${why}`), expected };
      },
    };
  },
};
