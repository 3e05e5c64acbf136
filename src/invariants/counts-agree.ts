/**
 * Compares sums of one stage: what callers saw, what the platform counted, what the store charged. They agree exactly (per
 * organization once authenticated, in total before), except that each indeterminate call allows one more in the platform's sums.
 * On a shared deployment counts may be higher, and only entries with our ids are summed. On a foreign one, totals are compared
 * and a difference is a doubt, because a gateway may retry or cache.
 */
import { admissionOf, ERROR_IN_BODY } from "../contract/refusals.ts";
import type { Counts } from "../history/stage-facts.ts";
import { Charges } from "./evidence/charges.ts";
import { changesReplicas, isReference, isUnnamed } from "./evidence/deployment.ts";
import { isDefinite } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped } from "./invariant.ts";

/** Sums by two keys. */
class Sums {
  readonly #rows = new Map<string, Map<string, number>>();

  add(row: string, column: string, amount: number): void {
    const columns = this.#rows.get(row) ?? new Map<string, number>();
    this.#rows.set(row, columns.set(column, (columns.get(column) ?? 0) + amount));
  }

  of(row: string, column: string): number {
    return this.#rows.get(row)?.get(column) ?? 0;
  }

  with(other: Sums): this {
    for (const [row, column] of other.cells()) this.add(row, column, other.of(row, column));
    return this;
  }

  rows(): string[] {
    return [...this.#rows.keys()];
  }

  columns(row: string): string[] {
    return [...(this.#rows.get(row)?.keys() ?? [])];
  }

  *cells(): Generator<[row: string, column: string]> {
    for (const [row, columns] of this.#rows) for (const column of columns.keys()) yield [row, column];
  }
}

/** Refused before the organization is known, or with the wrong kind of key. */
const BEFORE_AUTHENTICATION = /^(401|503|404|405|413|429 b2b_overloaded)/;

/** A stream fails after its 200, so the platform counts a 200. */
const bookOf = (outcome: string): string => (outcome === ERROR_IN_BODY ? "200" : admissionOf(outcome));
const ownerOf = (outcome: string, org: string, ours: boolean): string =>
  !ours || BEFORE_AUTHENTICATION.test(outcome) ? "all" : isUnnamed(org) ? "-" : org;

const countedBy = (counts: Counts, ours: boolean): Sums => {
  const sums = new Sums();
  for (const [outcome, byOrg] of Object.entries(counts)) {
    for (const [org, calls] of Object.entries(byOrg)) sums.add(bookOf(outcome), ownerOf(outcome, org, ours), calls);
  }
  return sums;
};

export const countsAgree: Invariant = {
  id: "counts-agree",
  level: "must",
  folded: true,
  spec: [19, 123, 222],
  statement: "callers, the platform's own counts and the ledger agree on the sums",
  judge(facts) {
    const { counts, ledger, drained, exclusive } = facts;
    const ours = isReference(facts);
    if (counts === undefined && ledger === undefined) {
      return skipped("the platform's counts and a ledger (control.api, control.limiter)");
    }
    const seen = new Sums();
    const owed = new Sums();
    const open = new Sums();
    let calls = 0;
    /** Without ids. */
    let folded = 0;
    let unknown = 0;
    let replicasMoved = false;
    const evidence = new Evidence();
    /** Differences on a foreign deployment, which prove nothing. */
    const doubts = new Evidence();
    const charges = new Charges(facts, drained);

    const compareCounts = (): void => {
      if (counts === undefined) return;
      const counted = countedBy(counts, ours);
      const differing = ours ? evidence : doubts;
      let extra = 0;
      let first = "";
      for (const outcome of new Sums().with(seen).with(counted).rows()) {
        // The platform may count an ended credential under an organization that the caller cannot name.
        let nobodys = seen.of(outcome, "-");
        for (const owner of new Sums().with(seen).with(counted).columns(outcome)) {
          const [callers, platform] = [owner === "-" ? 0 : seen.of(outcome, owner), counted.of(outcome, owner)];
          const got = `${outcome} (${owner}): callers saw ${callers}, the platform counted ${platform}`;
          // A removed replica's counts are lost.
          if (platform < callers && !replicasMoved) differing.breach(`${outcome} ${owner}`, got);
          const more = Math.max(0, platform - callers - nobodys);
          nobodys = Math.max(0, nobodys - Math.max(0, platform - callers));
          extra += more;
          if (more > 0) first ||= got;
        }
        if (nobodys > 0 && !replicasMoved) {
          differing.breach(
            `${outcome} -`,
            `${outcome}: callers without an organization saw ${nobodys} more than were counted`,
          );
        }
      }
      if (exclusive && extra > unknown) {
        const got = `${extra} counted beyond what callers saw, ${unknown} without an answer; ${first}`;
        differing.breach("counts", got);
      }
    };
    /** Without all ids, our entries cannot be told from others'. */
    const isLedgerMixed = (): boolean => ledger !== undefined && folded > 0 && !exclusive;
    const compareLedger = (): void => {
      // A store with its own ids or names cannot be compared.
      if (ledger === undefined || (!ours && !charges.knowsOurIds()) || isLedgerMixed()) return;
      const charged = new Sums();
      for (const { request_id, meter, org, kind, amount } of ledger) {
        if (!exclusive && !charges.isOfCall(request_id)) continue;
        const size = ours ? amount : 1;
        charged.add(meter, ours ? org : "all", kind === "charge" ? size : -size);
      }
      for (const [meter, org] of new Sums().with(owed).with(charged).cells()) {
        const sum = charged.of(meter, org);
        const least = owed.of(meter, org);
        const most = least + open.of("any", org) + (org === "-" ? 0 : open.of("any", "-"));
        if (sum >= least && sum <= most) continue;
        const due = least === most ? `${least}` : `${least} to ${most}`;
        evidence.breach(`${meter} ${org}`, `${org} was charged ${sum} ${meter}; callers' answers come to ${due}`);
      }
    };
    return {
      see(line, alike) {
        replicasMoved ||= changesReplicas(line);
        if (line.type !== "call") return;
        const n = alike ?? 1;
        calls += n;
        if (alike !== undefined) folded += n;
        if (isDefinite(line)) seen.add(bookOf(line.outcome), ownerOf(line.outcome, line.org, ours), n);
        else if (line.error !== "connection_refused") unknown += 1;
        const { is } = charges.see(line);
        const owner = ours ? (isUnnamed(line.org) ? "-" : line.org) : "all";
        if (is === "open") open.add("any", owner, n);
        else if (is !== "refused" && is.owes !== null) {
          if (owner === "-") open.add("any", "-", n);
          else owed.add(is.owes, owner, n);
        }
      },
      end() {
        if (calls === 0) return inconclusive("no call was made");
        compareCounts();
        compareLedger();
        const books = [counts && "counts", ledger && "ledger"].filter(Boolean);
        if (evidence.count === 0 && doubts.count > 0) {
          const why = "the counts differ from what callers saw; a gateway that retries or caches would look the same";
          return inconclusive(why, doubts.first);
        }
        if (evidence.count === 0 && isLedgerMixed()) {
          const why = `${folded} calls were folded without their ids, so the ledger of a shared deployment says nothing`;
          return skipped(`every call whole; ${why}`);
        }
        if (evidence.count === 0 && counts === undefined && !ours && !charges.knowsOurIds()) {
          return skipped("a ledger that names the ids of our calls");
        }
        if (evidence.count === 0) {
          const rest = unknown === 0 ? "" : `; of ${unknown} nobody knows whether they arrived`;
          return passed(
            `callers${books.length > 1 ? "," : " and"} ${books.join(" and ")} agree over ${calls} calls${rest}`,
          );
        }
        if (!drained) {
          const why = `${evidence.first}, but ${books.join(" and ")} were read before the stage was known to be drained`;
          return inconclusive(why, evidence.first);
        }
        return failed("callers, counts and ledger do not agree", evidence);
      },
    };
  },
};
