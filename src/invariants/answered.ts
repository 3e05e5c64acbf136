/**
 * What the API never answered says nothing against it and nothing for it, so every other judge leaves it out; a stage in which
 * most calls ended at a gateway would pass by the few that did not. Here those calls are counted: the gateway's own answers
 * (`edge NNN`), and no answer at all. Calls that our own faults explain are left out, from the moment a fault is asked for to
 * the deadline of recovery after its heal, and so are calls that we gave up ourselves or could not send.
 *
 * A failure has to be certain: the exact interval of the share lies above the limit. A share above it whose interval does not is
 * open. A single call is never more than a stray where its share says nothing either way.
 */
import { CODES_OF_THE_GENERATOR } from "../contract/transport-codes.ts";
import type { CallLine, Line } from "../history/line.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { exactInterval } from "../history/statistics/statistics.ts";
import { standstillDoubts } from "../history/time-doubts.ts";
import { earliestUs, isDefinite, latestUs, Settling } from "./evidence/moments.ts";
import {
  Evidence,
  type Finding,
  type Found,
  failed,
  type Invariant,
  inconclusive,
  passed,
  unseen,
} from "./invariant.ts";

const EXPECTED = "what no fault of ours explains is answered by the API itself, and not by a gateway or by nobody";

/** Where the target file states no `limits.unanswered_share`. */
const UNANSWERED_SHARE = 0.01;
const DEFAULT_DEADLINE_MS = 5_000;
/** Of fewer calls even one that was not answered is no stray. */
const STRAY_OF = 20;
/** Statuses and errors that are named; the rest is counted together. */
const NAMED_MAX = 6;

const TIMEOUT = /timeout/i;

const percent = (share: number): string => `${Number((100 * share).toPrecision(3))} %`;

export type AnsweredCount = {
  judged: number;
  /** What came in place of an answer: `edge 502`, `no answer (connection_reset)`. */
  unanswered: ReadonlyMap<string, number>;
  /** Calls that are left out, and why, as ends of a sentence. */
  leftOut: readonly string[];
  evidence: readonly string[];
};

const namedBy = (unanswered: ReadonlyMap<string, number>): string => {
  const most = [...unanswered].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  const rest = most.slice(NAMED_MAX).reduce((sum, [, n]) => sum + n, 0);
  const named = most.slice(0, NAMED_MAX).map(([what, n]) => `${n} x ${what}`);
  return [...named, ...(rest === 0 ? [] : [`${rest} others`])].join(", ");
};

/** The verdict by counts alone, which is all that a driver without a line for each call leaves. */
export const findingOfAnswered = (counted: AnsweredCount, limit = UNANSWERED_SHARE): Finding => ({
  ...foundBy(counted, limit),
  expected: `${EXPECTED}: at most ${percent(limit)} of the calls are not (limits.unanswered_share)`,
});

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

/** Spans in which something of ours was broken or changed, and had not had the time to recover. */
class OwnDoings {
  readonly #recoveryUs: number;
  readonly #spans: { fromUs: number; toUs: number }[] = [];
  /** Faults and changes that are being made or are made. */
  readonly #inForce = new Set<string>();

  constructor(recoveryUs: number) {
    this.#recoveryUs = recoveryUs;
  }

  see(line: Line): void {
    if (line.type === "fault") {
      this.#change(`${line.link} ${line.fault}`, line.phase !== "healed", line.at_us);
    } else if (line.type === "mark" && /^operator-(?:changed|restored)$/.test(line.name)) {
      this.#change("operator", line.name === "operator-changed", line.at_us);
    }
  }

  #change(name: string, isInForce: boolean, atUs: number): void {
    if (isInForce) this.#inForce.add(name);
    else this.#inForce.delete(name);
    const toUs = this.#inForce.size === 0 ? atUs + this.#recoveryUs : Number.POSITIVE_INFINITY;
    const last = this.#spans.at(-1);
    if (last !== undefined && atUs <= last.toUs) last.toUs = toUs;
    else this.#spans.push({ fromUs: atUs, toUs });
  }

  explain(call: CallLine): boolean {
    return this.#spans.some(({ fromUs, toUs }) => latestUs(call) >= fromUs && earliestUs(call) <= toUs);
  }
}

const whatCame = ({ outcome, error }: CallLine): string => {
  const came = outcome === "indeterminate" ? "no answer" : outcome;
  // Words of the transport; a sentence would be another one for each call.
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
    const doings = new OwnDoings((facts.recovery_deadline_ms ?? DEFAULT_DEADLINE_MS) * 1000);
    const starved = facts.host === undefined ? [] : standstillDoubts(facts.host, facts.limits.limiter_budget_ms);
    const unanswered = new Map<string, number>();
    const evidence: string[] = [];
    let judged = 0;
    let explained = 0;
    let unsent = 0;
    let left = 0;
    let waited = 0;

    const settling = new Settling((call) => {
      if (doings.explain(call)) explained += 1;
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
        doings.see(line);
        if (line.type !== "call") return;
        // Only admitted calls are folded, and where that is done nothing is broken.
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
        const finding = findingOfAnswered({ judged, unanswered, leftOut, evidence }, facts.limits.unanswered_share);
        const limit = facts.limits.unanswered_share ?? UNANSWERED_SHARE;
        const doubted = unsent + waited;
        if (finding.verdict !== "pass" || doubted <= limit * (judged + doubted)) return finding;
        const why = [...(waited === 0 ? [] : starved), ...leftOut].join("; ");
        const what = `what the API would have answered is not known of ${doubted} calls`;
        return { ...inconclusive(`${what}: ${why}`), expected: finding.expected };
      },
    };
  },
};
