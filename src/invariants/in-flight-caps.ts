/** Judges sheds below a cap by the most calls that can have been in flight. */
import { Heap } from "../history/heap.ts";
import { type CallLine, type Line, lineTimeUs } from "../history/line.ts";
import type { StageFacts } from "../history/run-document.ts";
import { add as addTo, known } from "../history/statistics/statistics.ts";
import { createRepeats } from "./evidence/charges.ts";
import {
  changesCaps,
  earliestUs,
  isDefinite,
  isShed,
  isUnnamed,
  latestUs,
  MARK_MARGIN_US,
} from "./evidence/moments.ts";
import { Evidence, failed, inconclusive, type Judge, passed, skipped, skippedWhenShared, unseen } from "./invariant.ts";

/** A server gives up on an unreachable client after 10 s. */
const LINGER_US = 10_000_000;
/** A foreign deployment may release a slot this late after the last byte. */
const LATE_RELEASE_US = 250_000;
/** A foreign deployment may count a shed call, which has no slot, this long. */
const LATE_AFTER_SHED_US = 50_000;
/** The largest clock error under which calls in flight can be counted. */
const LAG_US = 1_000_000;
const CLOCK_OFF = "a clock was off by more than a second";

const GLOBAL_SHED = "429 b2b_overloaded";
const ORG_SHED = "429 org_overloaded";

/** Order of events at the same moment. */
const ORDER = { start: 0, open: 1, close: 2, end: 3 } as const;

/** On the reference platform calls shed by an organization's cap and 401s without an organization hold no slot. */
const holdsOrgSlot = ({ outcome, org }: CallLine, ours: boolean): boolean =>
  !ours || (outcome !== ORG_SHED && !(org === "-" && outcome.startsWith("401")));

type Watch = { call: CallLine; most: number; mostOfOrg: number };

/** The latest time until which the call can have held a slot; `null`: it held none. */
const heldUntilUs = (call: CallLine, ours: boolean): number | null => {
  if (call.error === "connection_refused") return null;
  if (ours && call.outcome === GLOBAL_SHED) return null;
  if (!isDefinite(call)) return Number.POSITIVE_INFINITY;
  if (!ours && (call.outcome === GLOBAL_SHED || call.outcome === ORG_SHED)) return latestUs(call) + LATE_AFTER_SHED_US;
  const endedCleanly = call.ended === undefined || ["done", "error_event", "eof", "refused"].includes(call.ended);
  if (endedCleanly && call.aborted !== true) return latestUs(call) + (ours ? 0 : LATE_RELEASE_US);
  return ours ? latestUs(call) + LINGER_US : Number.POSITIVE_INFINITY;
};

/** A deployment that keeps the slot of a gone caller for longer than this has lost it. */
const FORGOTTEN_US = 60_000_000;

/** Until when a call of a stage that has ended may hold a slot of somebody else's deployment; `null`: not any more. */
export const mayHoldUntilUs = (call: CallLine): number | null =>
  heldUntilUs(call, false) === Number.POSITIVE_INFINITY ? latestUs(call) + FORGOTTEN_US : null;

/** How many calls of earlier stages may hold a slot while this call is decided. */
const heldBefore = ({ held_before: untilUs = [], reference }: StageFacts, call: CallLine): number =>
  reference === true ? 0 : untilUs.filter((us) => us >= earliestUs(call)).length;

const FROM_BEFORE =
  "of an earlier stage were left or cut and may hold slots still, which gauges (control.api in the target file) would show";

/**
 * An upper bound on the calls that a replica had in flight while it decided about one call, from callers' times:
 *
 *     counted     |----------------|              [sent - e, done + e], e = the clock's error
 *     counted            |------------ ~ ~ ~      no answer: it may be in flight still
 *     judged               [======]               the most that overlap at any one moment in here
 *
 * The reference platform notices within `LINGER_US` that a caller left, and a call that it sheds holds no slot. Another
 * deployment may notice it at any time, count a call while it sheds it, and release a slot a moment after the last byte.
 * The bound holds only if nobody else calls. `tell` gets each watched call that ended before the caps changed, once its
 * count is final.
 */
const mostInFlight = (tell: (call: CallLine, most: number, mostOfOrg: number) => void, ours: boolean) => {
  const events = new Heap<() => void>();
  const open = new Set<Watch>();
  const byOrg = new Map<string, number>();
  let total = 0;
  /** Calls that hold a slot of an organization, and those of them whose organization is unknown. */
  let holding = 0;
  let unnamed = 0;
  let doneUntilUs = Number.NEGATIVE_INFINITY;
  let capsUntilUs = Number.POSITIVE_INFINITY;
  let lost = false;

  const at = (us: number, what: keyof typeof ORDER, run: () => void): void => events.push(us, run, ORDER[what]);
  const count = (watch: Watch): void => {
    watch.most = Math.max(watch.most, total);
    const { org } = watch.call;
    const ofOrg = isUnnamed(org) ? holding : (byOrg.get(org) ?? 0) + unnamed;
    watch.mostOfOrg = Math.max(watch.mostOfOrg, ofOrg);
  };
  const change = (call: CallLine, by: 1 | -1): void => {
    total += by;
    if (!holdsOrgSlot(call, ours)) return;
    addTo(byOrg, call.org, by);
    holding += by;
    if (isUnnamed(call.org)) unnamed += by;
  };
  const watchFor = (call: CallLine): void => {
    const watch = { call, most: 0, mostOfOrg: 0 };
    at(earliestUs(call), "open", () => {
      open.add(watch);
      count(watch);
    });
    at(latestUs(call), "close", () => {
      open.delete(watch);
      // A foreign deployment's count includes the shed call, which must not justify its own shed.
      const itself = ours ? 0 : 1;
      if (latestUs(call) < capsUntilUs) tell(call, watch.most - itself, watch.mostOfOrg - itself);
    });
  };
  const runUntil = (us: number): void => {
    doneUntilUs = Math.max(doneUntilUs, us);
    while (events.least < us) events.pop()?.();
  };
  return {
    see: (line: Line, watched: boolean): void => {
      if (changesCaps(line)) capsUntilUs = Math.min(capsUntilUs, lineTimeUs(line) - MARK_MARGIN_US);
      runUntil(lineTimeUs(line) - LAG_US);
      if (line.type !== "call") return;
      if (earliestUs(line) < doneUntilUs) lost = true;
      if (watched) watchFor(line);
      const untilUs = heldUntilUs(line, ours);
      if (untilUs === null) return;
      at(earliestUs(line), "start", () => {
        change(line, 1);
        for (const watch of open) count(watch);
      });
      if (untilUs !== Number.POSITIVE_INFINITY) at(untilUs, "end", () => change(line, -1));
    },
    /** Handles all remaining events. Returns false if a clock error above `LAG_US` spoilt the counts. */
    finish: (): boolean => {
      runUntil(Number.POSITIVE_INFINITY);
      return !lost;
    },
  };
};

/** Fewest answers that make a pass without a shed; fewest sheds that raise a doubt. */
const ENOUGH = 20;

/** A shed is legal only if calls in flight can have reached a replica's cap (items 210, 211, 220, 221). Needs all calls. */
export const shedsOnlyOverTheCap: Judge = (facts) => {
  const { shedding, limits, tenants, exclusive } = facts;
  if (shedding !== "fixed") {
    return skipped("not-provided", `fixed shedding (the target file says ${shedding}: sheds are counted, not judged)`);
  }
  const { global_in_flight: globalCap, org_in_flight: orgCap } = limits;
  if (globalCap === undefined && orgCap === undefined) {
    return skipped("not-stated", "limits.global_in_flight and limits.org_in_flight in the target file");
  }
  if (!exclusive) return skippedWhenShared("other callers may have filled the cap that a call met");
  const evidence = new Evidence();
  let sheds = 0;
  let others = 0;
  /** A gateway that sends a call several times fills slots unseen. `lacking`: how many such calls would explain every shed. */
  const repeats = createRepeats(facts);
  let lacking = 0;
  /** Sheds that calls of earlier stages may explain. */
  const unsure = new Evidence();
  /** `plain`: sheds explained by the reference's count; `far`: at less than half of the cap; `most`: calls in flight. */
  const kinds = new Map<string, { sheds: number; plain: number; far: number; most: number; cap: number }>();
  const flightFor = (judge: (call: CallLine, seen: number, cap: number) => void, ours: boolean) =>
    mostInFlight((call, most, mostOfOrg) => {
      const isGlobal = call.outcome === GLOBAL_SHED;
      const cap = isGlobal ? globalCap : (tenants[call.org]?.in_flight_cap ?? orgCap);
      if (cap !== undefined && (isGlobal || call.org !== "-")) judge(call, isGlobal ? most : mostOfOrg, cap);
    }, ours);
  const isOurs = facts.reference === true;
  const flight = flightFor((call, seen, cap) => {
    sheds += 1;
    const whose = call.outcome === GLOBAL_SHED ? "in flight" : `of ${call.org} in flight`;
    const got = `${call.outcome} with at most ${seen} calls ${whose}; the cap is ${cap}`;
    const before = heldBefore(facts, call);
    if (seen + before < cap) {
      evidence.breach(call.id, got);
      lacking = Math.max(lacking, cap - seen - before);
    } else if (seen < cap) unsure.breach(call.id, `${got}, and ${before} calls ${FROM_BEFORE}`);
  }, isOurs);
  const countPlain = ({ outcome }: CallLine, seen: number, cap: number): void => {
    const kind = known(kinds, outcome, () => ({ sheds: 0, plain: 0, far: 0, most: 0, cap }));
    kind.sheds += 1;
    if (seen >= cap) kind.plain += 1;
    if (seen < cap / 2) kind.far += 1;
    if (seen > kind.most) Object.assign(kind, { most: seen, cap });
  };
  const narrow = isOurs ? null : flightFor(countPlain, true);
  return {
    see(line) {
      const watched = line.type === "call" && isShed(line);
      flight.see(line, watched);
      narrow?.see(line, watched);
      if (line.type === "call") repeats.see();
      if (line.type === "call" && isDefinite(line) && !watched) others += 1;
    },
    end() {
      narrow?.finish();
      if (!flight.finish()) return inconclusive("machine-disturbed", CLOCK_OFF);
      if (evidence.count > 0) return repeats.foundOf("a call was shed below the cap", lacking, evidence);
      if (unsure.count > 0) return inconclusive("ambiguous", unsure.first, unsure.first, unsure.ids);
      for (const [outcome, { sheds: all, plain, far, most, cap }] of kinds) {
        if (all < ENOUGH || (plain > 0 && far <= all / 2)) continue;
        const got =
          plain === 0
            ? `at most ${most} of the cap of ${cap} in flight at any of ${all} x ${outcome}`
            : `less than half of the cap of ${cap} in flight at ${far} of ${all} x ${outcome}`;
        const why = `${got}: a lower cap, slots that never come back, or sheds that count themselves, would look the same`;
        return inconclusive("ambiguous", why, got);
      }
      if (sheds > 0) return passed(`each of ${sheds} sheds came when the cap can have been reached`);
      if (others < ENOUGH) return unseen("too few calls, and none was shed");
      return passed(`none of ${others} calls was shed`);
    },
  };
};

/** The cap is judged only if nobody else calls; charges are judged always (items 10, 211, 227). */
export const organizationsDoNotShare: Judge = (facts) => {
  const { shedding, limits, tenants, ledger, exclusive } = facts;
  const capsStated = shedding === "fixed" && limits.org_in_flight !== undefined;
  const capsKnown = capsStated && exclusive;
  if (!capsKnown && ledger === undefined) {
    if (!capsStated) return skipped("not-stated", "fixed shedding with limits.org_in_flight, or a ledger");
    return skippedWhenShared("other callers may have filled the cap of an organization whose calls were shed");
  }
  const chargedTo = new Map<string, Set<string>>();
  for (const { request_id, org } of ledger ?? []) {
    known(chargedTo, request_id, () => new Set<string>()).add(org);
  }
  const evidence = new Evidence();
  const payers = new Set<string>();
  const elsewhere = new Evidence();
  let rightlyCharged = false;
  const called = new Set<string>();
  const shed = new Set<string>();
  const flight = mostInFlight((call, _, most) => {
    const cap = tenants[call.org]?.in_flight_cap ?? limits.org_in_flight;
    const got = `${call.org} was shed with at most ${most} calls in flight; its cap is ${cap}`;
    if (capsKnown && cap !== undefined && most + heldBefore(facts, call) < cap) evidence.breach(call.id, got);
  }, facts.reference === true);
  return {
    see(line) {
      const own = line.type === "call" && !isUnnamed(line.org);
      flight.see(line, own && line.outcome === ORG_SHED);
      if (!own) return;
      called.add(line.org);
      if (line.outcome === ORG_SHED) shed.add(line.org);
      for (const org of chargedTo.get(line.id) ?? []) {
        payers.add(org);
        if (org === line.org) rightlyCharged = true;
        else elsewhere.breach(line.id, `a call of ${line.org} was charged to ${org}`);
      }
    },
    end() {
      if (!flight.finish()) return inconclusive("machine-disturbed", CLOCK_OFF);
      // If no organization matches, the store uses other names.
      const isElsewhere = elsewhere.count > 0 && (facts.reference === true || rightlyCharged);
      const broken = "an organization was shed or charged for another's calls";
      if (isElsewhere || evidence.count > 0) return failed(broken, isElsewhere ? elsewhere : evidence);
      if (elsewhere.count > 0)
        return skipped("not-stated", "a ledger that names organizations as the target file does");
      const quiet = called.size - shed.size;
      if (capsKnown && shed.size > 0 && quiet > 0) {
        return passed(`${shed.size} organizations were shed for themselves, ${quiet} beside them were not`);
      }
      if (payers.size > 1) return passed(`${payers.size} organizations were charged for their own calls`);
      const few = "fewer than two organizations were charged, and a shed may be due to others";
      if (!exclusive) return skippedWhenShared(few);
      return unseen("no organization was shed beside another, and fewer than two were charged");
    },
  };
};
