/** Judges that an organization gets all of its monthly allowance of map loads, and no more. */
import { HARD_STOP_FACTOR } from "../contract/refusals.ts";
import type { CallLine, Line } from "../history/line.ts";
import type { StageFacts } from "../history/run-document.ts";
import { known } from "../history/statistics/statistics.ts";
import { createRepeats, joinCharges, meterOf, Sums, signedSize } from "./evidence/charges.ts";
import { earliestUs, isAdmitted, isDefinite, isUnnamed, latestUs, MARK_MARGIN_US } from "./evidence/moments.ts";
import { Evidence, failed, inconclusive, type Judge, passed, skipped, skippedWhenShared, unseen } from "./invariant.ts";

const QUOTA_REFUSALS = new Set(["429 map_load_quota_exceeded", "429 map_load_hard_stop"]);

const isUnsettled = (call: CallLine): boolean => !isDefinite(call) || call.outcome === "429 limiter_unavailable";

const certainlyCharged = (call: CallLine): boolean =>
  isAdmitted(call) && meterOf(call) === "map_loads" && call.outcome !== "200 error";

const perhapsCharged = (call: CallLine): boolean => {
  const meter = meterOf(call);
  return (meter === undefined || meter === "map_loads") && (isAdmitted(call) || isUnsettled(call));
};

/** The smallest and largest possible cap; `null`: unknown. */
const capsOf = (facts: StageFacts, org: string, tierMoved: boolean): { least: number; most: number } | null => {
  const tenant = facts.tenants[org];
  if (tenant?.allowance === undefined || tenant.tier === null) return null;
  const { allowance, tier } = tenant;
  // A8b: "over 5 times" may mean one load more than 5 times.
  const doubt = facts.reference === true ? 0 : 1;
  const paid = { least: allowance * HARD_STOP_FACTOR - doubt, most: allowance * HARD_STOP_FACTOR + doubt };
  if (tierMoved) return { least: Math.min(allowance, paid.least), most: paid.most };
  return tier === "Pro" ? paid : { least: allowance, most: allowance };
};

/** `certain`: admitted loads, `mints` of them tile sessions; `possible`: loads perhaps charged; `refused`: quota refusals. */
const newMonth = () => ({ certain: 0, mints: 0, possible: 0, refused: 0 });

/** One organization's use by month; `unsettled`: calls that may be charged in any month. */
const newUse = () => ({ months: new Map<number, ReturnType<typeof newMonth>>(), unsettled: 0, tierMoved: false });

type Use = ReturnType<typeof newUse>;

/** A deployment's clock may be off by this much. */
const CLOCK_DOUBT_US = 5_000_000;
/** How many edges are computed; no run is longer. */
const EDGES = 4;

/** The edges of months (UTC, item 229) from the last one before the stage on, each as a span that allows for the clock's error. */
const monthEdges = ({ started_at_ms: startedMs, clock_set_ms: setMs = 0 }: StageFacts) => {
  if (startedMs === undefined) return [];
  const doubtUs = CLOCK_DOUBT_US + Math.abs(setMs) * 1000;
  const started = new Date(startedMs);
  return Array.from({ length: EDGES }, (_, ahead) => {
    const atMs = Date.UTC(started.getUTCFullYear(), started.getUTCMonth() + ahead, 1) - startedMs;
    return { fromUs: atMs * 1000 - doubtUs, toUs: atMs * 1000 + doubtUs };
  });
};

/**
 * Bounds the use by organization and month: at least the admitted calls, at most also those of unknown outcome. `tell` gets
 * each quota refusal with the most that can have been charged by then; `month` is null if it may be either of two.
 */
const openAllowances = (
  facts: StageFacts,
  settling: Parameters<Judge>[1],
  tell: (refusal: CallLine, use: Use, month: number | null, possible: number) => void,
) => {
  const edges = monthEdges(facts);
  /** Months are numbered from that in which the stage began, whose edge is the first. */
  const monthsBefore = Math.min(1, edges.length);
  const uses = new Map<string, Use>();
  /** Calls that any organization may have been charged for. */
  let anybodys = 0;
  const useOf = (org: string): Use => known(uses, org, newUse);
  const monthOf = ({ months }: Use, number: number) => known(months, number, newMonth);
  /** The most that can have been charged by the refusal: by calls that ended before it and by calls in flight. */
  const possibleAt = (refusal: CallLine, use: Use, month: number): number => {
    const mayBeIts = ({ org }: CallLine): boolean => org === refusal.org || isUnnamed(org);
    const begun = [...settling.waiting()].filter((call) => earliestUs(call) <= latestUs(refusal));
    const inFlight = begun.filter((call) => mayBeIts(call) && perhapsCharged(call)).length;
    return anybodys + use.unsettled + (use.months.get(month)?.possible ?? 0) + inFlight;
  };
  return {
    uses,
    useOf,
    see: (line: Line): void => {
      // The clock was moved into another month.
      if (line.type === "mark" && line.name === "new-month")
        edges.push({ fromUs: line.at_us - MARK_MARGIN_US, toUs: line.at_us });
      if (line.type === "mark" && line.name === "tier-changed" && line.org !== undefined)
        useOf(line.org).tierMoved = true;
      if (line.type === "call" && (QUOTA_REFUSALS.has(line.outcome) || perhapsCharged(line))) settling.add(line);
    },
    settled: (call: CallLine): void => {
      const first = edges.filter(({ toUs }) => earliestUs(call) > toUs).length - monthsBefore;
      const last = edges.filter(({ fromUs }) => latestUs(call) >= fromUs).length - monthsBefore;
      if (isUnnamed(call.org) && perhapsCharged(call)) anybodys += 1;
      if (call.org === "-") return;
      const use = useOf(call.org);
      if (QUOTA_REFUSALS.has(call.outcome)) {
        monthOf(use, last).refused += 1;
        tell(call, use, first === last ? first : null, possibleAt(call, use, last));
        return;
      }
      if (isUnsettled(call)) use.unsettled += 1;
      else for (let number = first; number <= last; number += 1) monthOf(use, number).possible += 1;
      if (first !== last || !certainlyCharged(call)) return;
      monthOf(use, first).certain += 1;
      // A9: on the reference platform a tile session is one load; others may count loads elsewhere.
      if (call.route === "sdk.sessions") monthOf(use, first).mints += 1;
    },
  };
};

/**
 * Items 79, 204-206, 225, 227, 234; A8. Calls of unknown outcome are not counted. If the earlier use is unknown, or the
 * deployment is shared (others' loads may have been refunded), it is taken as 0, so that the bound is the whole cap.
 */
export const admitsAtMostTheAllowance: Judge = (facts, settling) => {
  const evidence = new Evidence();
  const { exclusive, tenants } = facts;
  /** Loads used before the stage, by organization: as stated, or as derived from refusals. */
  const usedBefore = new Map<string, number>();
  for (const [org, { used_at_start: used }] of Object.entries(tenants)) {
    if (exclusive && used !== undefined) usedBefore.set(org, used);
  }
  const judgeQuotaFields = (refusal: CallLine, use: Use, month: number | null): void => {
    const { limit, used } = refusal.quota ?? {};
    const tenant = facts.tenants[refusal.org];
    const caps = capsOf(facts, refusal.org, use.tierMoved);
    if (typeof limit === "number" && tenant?.allowance !== undefined && limit !== tenant.allowance) {
      evidence.breach(refusal.id, `the refusal reports a limit of ${limit}; the allowance is ${tenant.allowance}`);
    }
    if (typeof used !== "number" || caps === null || used <= caps.most) return;
    // An organization that was downgraded may have used more than its allowance before the run; nothing is added to that.
    const certain = month === null ? 0 : (use.months.get(month)?.certain ?? 0);
    const before = (exclusive && month === 0 ? tenant?.used_at_start : undefined) ?? used - certain;
    if (before <= caps.most) {
      evidence.breach(refusal.id, `the refusal reports ${used} used; no more than ${caps.most} may ever be`);
    }
  };
  const allowances = openAllowances(facts, settling, (refusal, use, month, possible) => {
    const used = refusal.quota?.used;
    if (exclusive && month === 0 && typeof used === "number") {
      usedBefore.set(refusal.org, Math.max(usedBefore.get(refusal.org) ?? 0, used - possible));
    }
    judgeQuotaFields(refusal, use, month);
  });
  const last = new Map<string, string>();
  const charges = joinCharges(facts, true);
  const unreached = () => {
    const limited = Object.entries(tenants).filter(([, { allowance }]) => allowance !== undefined);
    if (limited.length === 0) return skipped("not-stated", "an organization whose allowance (limit) is stated");
    const shared = "others may have used a part of an allowance, so where it ends is not known";
    if (!exclusive) return skippedWhenShared(shared);
    const isKnown = limited.some(([org]) => usedBefore.has(org));
    if (!isKnown) return skipped("state-unknown", "what an organization had used before the stage (control.keys)");
    return unseen("no organization whose use is known came to its allowance");
  };
  const judgeLedger = (): void => {
    /** Charges less refunds of map loads, by organization and month. */
    const sums = new Sums();
    for (const entry of facts.ledger ?? []) {
      // Other callers' charges are left out: they may be older than the stage.
      const isCounted = exclusive || charges.isOfCall(entry.request_id);
      if (isCounted && entry.meter === "map_loads") sums.add(entry.org, entry.window, signedSize(entry, true));
    }
    for (const [org, months] of sums.rows) {
      const caps = capsOf(facts, org, allowances.useOf(org).tierMoved);
      // If the stage spans two months, it is unknown in which of them the earlier use was.
      const crossed = months.size > 1 || [...allowances.useOf(org).months.keys()].some((number) => number !== 0);
      const before = crossed || !exclusive ? 0 : (tenants[org]?.used_at_start ?? 0);
      for (const [window, net] of months) {
        if (caps === null || net <= 0 || before + net <= caps.most) continue;
        const got = `the ledger has ${net} map loads of ${org} in ${window} on top of ${before}; the cap is ${caps.most}`;
        evidence.breach(last.get(org) ?? org, got);
      }
    }
  };
  return {
    see(line) {
      allowances.see(line);
      if (line.type === "call") charges.see(line);
      if (line.type === "call" && line.outcome === "200") last.set(line.org, line.id);
    },
    settled: allowances.settled,
    end() {
      judgeLedger();
      let reached = 0;
      let uncounted = "";
      for (const [org, use] of allowances.uses) {
        const caps = capsOf(facts, org, use.tierMoved);
        if (caps === null) continue;
        for (const [number, { certain, mints, refused }] of use.months) {
          const before = number === 0 ? usedBefore.get(org) : exclusive ? 0 : undefined;
          const got = `${org} got ${certain} map loads on top of ${before ?? 0}; its cap is ${caps.most}`;
          if (certain > 0 && (before ?? 0) + certain > caps.most) {
            // A9: a deployment that does not count mints does not refuse them either.
            const mayNotCount =
              facts.reference !== true && refused === 0 && (before ?? 0) + certain - mints <= caps.most;
            if (mayNotCount) uncounted ||= got;
            else evidence.breach(last.get(org) ?? org, got);
          } else if (certain >= caps.least) reached += 1;
          else if (before !== undefined && (refused > 0 || before + certain >= caps.least)) reached += 1;
        }
      }
      if (evidence.count > 0) return failed("more map loads were admitted than the allowance", evidence);
      if (uncounted !== "") {
        const why = "either the allowance is not enforced, or tile sessions are not counted as map loads here (A9)";
        return inconclusive("ambiguous", why, uncounted);
      }
      if (reached > 0) return passed(`${reached} organizations came to their allowance and got no more`);
      return unreached();
    },
  };
};

/** The least use at which this refusal is legal; `null`: unknown. */
const legalFrom = (facts: StageFacts, refusal: CallLine, use: Use): number | null => {
  const caps = capsOf(facts, refusal.org, use.tierMoved);
  if (caps === null) return null;
  // A8: elsewhere the exchange may also refuse paid organizations at the allowance.
  const atAllowance = facts.reference !== true && refusal.outcome === "429 map_load_quota_exceeded";
  return atAllowance ? Math.min(caps.least, facts.tenants[refusal.org]?.allowance ?? 0) : caps.least;
};

/**
 * An allowance must not end early (items 204-206, 229; A8): a quota refusal is legal only if the possible charges reach the
 * cap. On a shared deployment only refusals that contradict themselves are judged. Unknown earlier use is never assumed to be
 * 0.
 */
export const admitsWhatIsAllowed: Judge = (facts, settling) => {
  const evidence = new Evidence();
  let [legal, unknown, afterTurn] = [0, 0, 0];
  /** A load that a gateway sends several times is charged as often. `lacking`: how many such loads would explain every refusal. */
  const repeats = createRepeats(facts);
  let lacking = 0;
  const allowances = openAllowances(facts, settling, (refusal, use, month, possible) => {
    const { limit, used } = refusal.quota ?? {};
    if (typeof limit === "number" && typeof used === "number" && used < limit) {
      evidence.breach(refusal.id, `refused although the answer itself says that ${used} of ${limit} are used`);
      lacking = Number.POSITIVE_INFINITY;
      return;
    }
    if (!facts.exclusive) return;
    const from = legalFrom(facts, refusal, use);
    const before = month === 0 ? facts.tenants[refusal.org]?.used_at_start : 0;
    if (from === null || (month === 0 && before === undefined)) unknown += 1;
    if (month === null || from === null || before === undefined) return;
    if (before + possible >= from) legal += 1;
    else {
      const most = `${before} used before and at most ${possible} in the stage`;
      evidence.breach(refusal.id, `${refusal.outcome} for ${refusal.org} with ${most}; it ends at ${from}`);
      lacking = Math.max(lacking, from - before - possible);
    }
  });
  return {
    see: (line) => {
      allowances.see(line);
      if (line.type === "call") repeats.see();
    },
    settled: allowances.settled,
    end() {
      for (const use of allowances.uses.values()) {
        for (const [number, { certain }] of use.months) if (number > 0) afterTurn += certain;
      }
      if (evidence.count > 0) return repeats.foundOf("an allowed map load was refused", lacking, evidence);
      if (!facts.exclusive)
        return skippedWhenShared("others may have used up an allowance at which a call was refused");
      if (legal === 0 && unknown > 0) {
        return skipped("state-unknown", "the allowance of the refused organization and its use before the stage");
      }
      if (legal === 0 && afterTurn === 0) return unseen("no refusal for the allowance could be judged");
      return passed(`${legal} refusals for the allowance came when it can have been used up`);
    },
  };
};
