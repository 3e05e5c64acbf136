/** Callers, the platform's counts and the store's charges compared: call by call, and by their sums. */

import { admissionOf, ERROR_IN_BODY } from "../contract/refusals.ts";
import type { LedgerLine } from "../contract/routes.ts";
import { add, known, sumOf } from "../history/statistics/statistics.ts";
import { createRepeats, joinCharges, Sums, signedSize } from "./evidence/charges.ts";
import { changesReplicas, isDefinite, isReference, isUnnamed } from "./evidence/moments.ts";
import { Evidence, failed, inconclusive, type Judge, passed, skipped, unseen } from "./invariant.ts";

const OUR_IDS = "a ledger that names the ids of our calls";

/** Joins calls with the ledger by id (items 11, 80, 222; A9); a store with its own ids cannot be joined. */
export const refusedIsNotCharged: Judge = (facts) => {
  const { ledger, drained } = facts;
  if (ledger === undefined) return skipped("not-stated", "a ledger (control.limiter, or observers.ledger)");
  const charges = joinCharges(facts, drained);
  const repeats = createRepeats(facts);
  const evidence = new Evidence();
  let [refused, charged, folded] = [0, 0, 0];
  const judgeEntries = (): void => {
    for (const [id, { net, owed, open, refused: refusal, seen }] of charges.byRequest) {
      for (const [meter, sum] of net) {
        const least = owed.get(meter) ?? 0;
        if (seen === 0 && !facts.exclusive) continue;
        if (sum < 0) evidence.breach(id, `${meter} of this call add up to ${sum}`);
        // For an id that no call carried, only a negative sum is wrong.
        if (seen === 0 || sum < 0) continue;
        if (sum < least) evidence.breach(id, `admitted and charged ${sum} ${meter}, not ${least}`);
        if (sum <= least + open) continue;
        repeats.tooMany(sum - least - open);
        const what = refusal === null ? "admitted" : `refused with ${refusal.outcome}`;
        evidence.breach(id, `${what} and charged ${sum} ${meter}, not ${least + open || "nothing"}`);
      }
      for (const [meter, least] of owed) {
        if (!net.has(meter)) evidence.breach(id, `admitted and charged no ${meter}`);
        charged += least;
      }
    }
  };
  return {
    see(line, alike) {
      folded += alike ?? 0;
      if (line.type === "call") repeats.see(alike);
      if (line.type !== "call" || alike !== undefined) return;
      const { is, isKnown } = charges.see(line);
      if (is === "refused") refused += 1;
      if (!isKnown && typeof is === "object" && is.owes !== null) {
        evidence.breach(line.id, `admitted on ${line.route} and not in the ledger of ${is.owes}`);
      }
    },
    end() {
      judgeEntries();
      if (!isReference(facts) && !charges.knowsOurIds()) return skipped("accounts-differ", OUR_IDS);
      if (evidence.count > 0) return repeats.found("what was charged is not what was admitted", evidence);
      if (folded > 0) {
        const whole = `${refused} refused calls were charged nothing`;
        return skipped(
          "not-recorded",
          `every call whole; ${folded} admitted calls were folded without their ids (${whole})`,
        );
      }
      if (refused === 0) return unseen("no call was refused, so none could be charged wrongly");
      return passed(`${refused} refused calls were charged nothing, ${charged} metered ones exactly once`);
    },
  };
};

type Entry = { charges: LedgerLine[]; refunds: LedgerLine[] };

/** What is wrong with the entries of one charge id, in any order; `null` for nothing. */
const entryFault = ({ charges, refunds }: Entry): string | null => {
  const [charge] = charges;
  const [refund] = refunds;
  if (charges.length > 1) return "charged twice under one charge id";
  if (refunds.length > 1) return "refunded twice";
  if (refund === undefined) return null;
  if (charge === undefined) return "refunded without a charge";
  for (const field of ["org", "meter", "window", "amount", "request_id"] as const) {
    if (refund[field] !== charge[field])
      return `${field} of the refund is ${refund[field]}, of the charge ${charge[field]}`;
  }
  return null;
};

/**
 * After a lost reply of the limiter the platform asks again and refunds by id; done wrongly, a load is charged or refunded
 * twice (items 222, 234). On a shared deployment only our own calls' entries are judged.
 */
export const chargedOnce: Judge = (facts) => {
  const { ledger, exclusive } = facts;
  if (ledger === undefined) return skipped("not-stated", "a ledger (control.limiter, or observers.ledger)");
  const evidence = new Evidence();
  const entries = new Map<string, Entry>();
  for (const line of ledger) {
    const entry = known(entries, line.charge_id, () => ({ charges: [], refunds: [] }));
    (line.kind === "charge" ? entry.charges : entry.refunds).push(line);
  }
  const charges = joinCharges(facts, true);
  const repeats = createRepeats(facts);
  let folded = 0;
  const isOurs = ({ charges: lines, refunds }: Entry): boolean =>
    exclusive || [...lines, ...refunds].some(({ request_id }) => charges.isOfCall(request_id));
  return {
    see(line, alike) {
      if (line.type === "call") repeats.see(alike);
      if (alike !== undefined) folded += alike;
      else if (line.type === "call") charges.see(line);
    },
    end() {
      let judged = 0;
      for (const [id, entry] of entries) {
        if (!isOurs(entry)) continue;
        judged += 1;
        const fault = entryFault(entry);
        if (fault !== null) evidence.breach(id, fault);
      }
      for (const [id, { net, seen }] of charges.byRequest) {
        if (seen === 0 && !exclusive) continue;
        // An id unknown to the history stands for at least one call.
        const calls = Math.max(1, seen);
        for (const [meter, sum] of net) {
          if (sum <= calls) continue;
          repeats.tooMany(sum - calls);
          evidence.breach(id, `${calls} calls under this id are charged ${sum} ${meter}`);
        }
      }
      if (evidence.count > 0) return repeats.found("something was charged or refunded more than once", evidence);
      if (folded > 0 && !exclusive) {
        return skipped(
          "not-recorded",
          `every call whole; ${folded} calls were folded without their ids on a shared deployment`,
        );
      }
      if (judged === 0 && entries.size > 0) return skipped("accounts-differ", OUR_IDS);
      if (judged === 0) return unseen("nothing was charged in this stage");
      return passed(`${judged} charges were made once, and refunded at most once`);
    },
  };
};

/** Refused before the organization is known, or with the wrong kind of key. */
const BEFORE_AUTHENTICATION = /^(401|503|404|405|413|429 b2b_overloaded)/;

/** A stream fails after its 200, so the platform counts a 200. */
const bookOf = (outcome: string): string => (outcome === ERROR_IN_BODY ? "200" : admissionOf(outcome));
const ownerOf = (outcome: string, org: string, ours: boolean): string =>
  !ours || BEFORE_AUTHENTICATION.test(outcome) ? "all" : isUnnamed(org) ? "-" : org;

/**
 * What callers saw, the platform counted and the store charged must agree: per organization once authenticated, in total before.
 * Each indeterminate call allows one more. On a shared deployment counts may be higher, and only entries with our ids are summed;
 * on a foreign one differing counts are inconclusive, because a gateway may retry or cache.
 */
export const countsAgree: Judge = (facts) => {
  const { counts, ledger, drained, exclusive } = facts;
  const ours = isReference(facts);
  const missing = "the platform's counts and a ledger (control.api, control.limiter)";
  if (counts === undefined && ledger === undefined) return skipped("not-stated", missing);
  const seen = new Sums();
  const owed = new Sums();
  const open = new Map<string, number>();
  let calls = 0;
  /** Calls folded without their ids. */
  let folded = 0;
  let unknown = 0;
  let replicasMoved = false;
  const evidence = new Evidence();
  /** Differences on a foreign deployment, which prove nothing. */
  const doubts = new Evidence();
  const charges = joinCharges(facts, drained);
  const repeats = createRepeats(facts);

  const compareCounts = (): void => {
    if (counts === undefined) return;
    const counted = new Sums();
    for (const [outcome, byOrg] of Object.entries(counts)) {
      for (const [org, n] of Object.entries(byOrg)) counted.add(bookOf(outcome), ownerOf(outcome, org, ours), n);
    }
    const differing = ours ? evidence : doubts;
    let extra = 0;
    let first = "";
    for (const [outcome, owners] of seen.columnsWith(counted)) {
      // The platform may count an ended credential under an organization that the caller cannot name.
      let nobodys = seen.of(outcome, "-");
      for (const owner of owners) {
        const [callers, platform] = [owner === "-" ? 0 : seen.of(outcome, owner), counted.of(outcome, owner)];
        const got = `${outcome} (${owner}): callers saw ${callers}, the platform counted ${platform}`;
        // A removed replica's counts are lost.
        if (platform < callers && !replicasMoved) differing.breach(`${outcome} ${owner}`, got);
        const more = Math.max(0, platform - callers - nobodys);
        nobodys = Math.max(0, nobodys - Math.max(0, platform - callers));
        extra += more;
        if (more > 0) first ||= got;
      }
      const got = `${outcome}: callers without an organization saw ${nobodys} more than were counted`;
      if (nobodys > 0 && !replicasMoved) differing.breach(`${outcome} -`, got);
    }
    const got = `${extra} counted beyond what callers saw, ${unknown} without an answer; ${first}`;
    if (exclusive && extra > unknown) differing.breach("counts", got);
  };
  /** Without all ids, our entries cannot be told from others'. */
  const isLedgerMixed = (): boolean => ledger !== undefined && folded > 0 && !exclusive;
  const compareLedger = (): void => {
    // A store with its own ids or names cannot be compared.
    if (ledger === undefined || (!ours && !charges.knowsOurIds()) || isLedgerMixed()) return;
    const charged = new Sums();
    for (const entry of ledger) {
      if (!exclusive && !charges.isOfCall(entry.request_id)) continue;
      charged.add(entry.meter, ours ? entry.org : "all", signedSize(entry, ours));
    }
    const cells = owed.columnsWith(charged).flatMap(([meter, orgs]) =>
      [...orgs].map((org) => {
        const least = owed.of(meter, org);
        const most = least + (open.get(org) ?? 0) + (org === "-" ? 0 : (open.get("-") ?? 0));
        return { meter, org, sum: charged.of(meter, org), least, most };
      }),
    );
    const isRepeated = repeats.explain(sumOf(cells.map(({ sum, most }) => Math.max(0, sum - most))));
    for (const { meter, org, sum, least, most } of cells) {
      if (sum >= least && sum <= most) continue;
      const due = least === most ? `${least}` : `${least} to ${most}`;
      const found = isRepeated && sum > most ? doubts : evidence;
      found.breach(`${meter} ${org}`, `${org} was charged ${sum} ${meter}; callers' answers come to ${due}`);
    }
  };
  return {
    see(line, alike) {
      replicasMoved ||= changesReplicas(line);
      if (line.type !== "call") return;
      const n = alike ?? 1;
      calls += n;
      repeats.see(n);
      if (alike !== undefined) folded += n;
      if (isDefinite(line)) seen.add(bookOf(line.outcome), ownerOf(line.outcome, line.org, ours), n);
      else if (line.error !== "connection_refused") unknown += 1;
      const { is } = charges.see(line);
      const owner = ours ? (isUnnamed(line.org) ? "-" : line.org) : "all";
      if (is === "refused" || (is !== "open" && is.owes === null)) return;
      if (is === "open" || owner === "-") add(open, owner, n);
      else owed.add(is.owes as string, owner, n);
    },
    end() {
      if (calls === 0) return inconclusive("not-reached", "no call was made");
      compareCounts();
      compareLedger();
      const books = [counts && "counts", ledger && "ledger"].filter(Boolean).join(" and ");
      if (evidence.count > 0 && drained) return failed("callers, counts and ledger do not agree", evidence);
      if (evidence.count > 0) {
        const why = `${evidence.first}, but the stage was not known to be drained when ${books} could be read`;
        return inconclusive("state-unknown", why, evidence.first);
      }
      if (doubts.count > 0) {
        const why =
          "counts or charges differ from what callers saw; a gateway that retries or caches would look the same";
        return inconclusive("accounts-differ", why, doubts.first);
      }
      if (isLedgerMixed()) {
        const why = `${folded} calls were folded without their ids, so the ledger of a shared deployment says nothing`;
        return skipped("not-recorded", `every call whole; ${why}`);
      }
      if (counts === undefined && !ours && !charges.knowsOurIds()) return skipped("accounts-differ", OUR_IDS);
      const rest = unknown === 0 ? "" : `; of ${unknown} nobody knows whether they arrived`;
      const all = `callers${counts && ledger ? "," : " and"} ${books}`;
      return passed(`${all} agree over ${calls} calls${rest}`);
    },
  };
};
