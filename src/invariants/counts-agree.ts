/**
 * Three books of one stage: what callers saw, what the platform counted, what the store charged. A driver that loses calls,
 * a platform that answers without counting, a charge nobody asked for: each shows as a sum that does not agree (design.md
 * "Cross-checks"). Without indeterminate calls they agree exactly: per organization from authentication on, in total for
 * what is refused before. Each indeterminate call excuses one more in the platform's books, none fewer.
 */
import type { Counts } from "../history/stage-facts.ts";
import { changesReplicas } from "./capacity-changes.ts";
import { chargeClassOf } from "./charges.ts";
import { Evidence, failed, type Invariant, inconclusive, knownBeforehand, passed, skipped } from "./invariant.ts";
import { isDefinite } from "./moments.ts";
import { Sums } from "./sums.ts";

const EXPECTED = "callers, the platform's own counts and the ledger tell the same sums";

/** Refused before it is known whose call it is, or refused by what it is no key of. */
const BEFORE_AUTHENTICATION = /^(401|503|404|405|413|429 b2b_overloaded)/;

/** A stream's failure is told after its 200; who left earlier has not seen it. */
const bookOf = (outcome: string): string => (outcome === "200 error" ? "200" : outcome);
const ownerOf = (outcome: string, org: string): string => (BEFORE_AUTHENTICATION.test(outcome) ? "all" : org);

const countedBy = (counts: Counts): Sums => {
  const sums = new Sums();
  for (const [outcome, byOrg] of Object.entries(counts)) {
    for (const [org, calls] of Object.entries(byOrg)) sums.add(bookOf(outcome), ownerOf(outcome, org), calls);
  }
  return sums;
};

export const countsAgree: Invariant = {
  id: "counts-agree",
  level: "must",
  spec: [19, 123, 222],
  statement: EXPECTED,
  judge({ counts, ledger, drained }) {
    if (counts === undefined && ledger === undefined) {
      return knownBeforehand(skipped("the platform's counts and a ledger (control.api, control.limiter)", EXPECTED));
    }
    const seen = new Sums();
    const owed = new Sums();
    const open = new Sums();
    let calls = 0;
    let unknown = 0;
    let replicasMoved = false;
    const evidence = new Evidence();

    const compareCounts = (): void => {
      if (counts === undefined) return;
      const counted = countedBy(counts);
      let extra = 0;
      let first = "";
      for (const outcome of new Sums().with(seen).with(counted).rows()) {
        // Callers whose credential is over are nobody's to themselves, and still somebody's to the platform.
        let nobodys = seen.of(outcome, "-");
        for (const owner of new Sums().with(seen).with(counted).columns(outcome)) {
          const [callers, platform] = [owner === "-" ? 0 : seen.of(outcome, owner), counted.of(outcome, owner)];
          const got = `${outcome} (${owner}): callers saw ${callers}, the platform counted ${platform}`;
          // A replica that is gone took its counts along.
          if (platform < callers && !replicasMoved) evidence.breach(`${outcome} ${owner}`, got);
          const more = Math.max(0, platform - callers - nobodys);
          nobodys = Math.max(0, nobodys - Math.max(0, platform - callers));
          extra += more;
          if (more > 0) first ||= got;
        }
        if (nobodys > 0 && !replicasMoved) {
          evidence.breach(
            `${outcome} -`,
            `${outcome}: callers without an organization saw ${nobodys} more than were counted`,
          );
        }
      }
      if (extra > unknown) {
        const got = `${extra} counted beyond what callers saw, ${unknown} without an answer; ${first}`;
        evidence.breach("counts", got);
      }
    };
    const compareLedger = (): void => {
      if (ledger === undefined) return;
      const charged = new Sums();
      for (const { meter, org, kind, amount } of ledger) charged.add(meter, org, kind === "charge" ? amount : -amount);
      for (const [meter, org] of new Sums().with(owed).with(charged).cells()) {
        const sum = charged.of(meter, org);
        const least = owed.of(meter, org);
        const most = least + open.of("any", org) + open.of("any", "-");
        if (sum >= least && sum <= most) continue;
        const due = least === most ? `${least}` : `${least} to ${most}`;
        evidence.breach(`${meter} ${org}`, `${org} was charged ${sum} ${meter}; callers' answers come to ${due}`);
      }
    };
    return {
      see(line) {
        replicasMoved ||= changesReplicas(line);
        if (line.type !== "call") return;
        calls += 1;
        if (isDefinite(line)) seen.add(bookOf(line.outcome), ownerOf(line.outcome, line.org), 1);
        else if (line.error !== "ECONNREFUSED") unknown += 1;
        const is = chargeClassOf(line, drained);
        if (is === "open") open.add("any", line.org, 1);
        else if (is !== "refused" && is.owes !== null)
          (line.org === "-" ? open : owed).add(line.org === "-" ? "any" : is.owes, line.org, 1);
      },
      end() {
        if (calls === 0) return inconclusive("no call was made", EXPECTED);
        compareCounts();
        compareLedger();
        const books = [counts && "counts", ledger && "ledger"].filter(Boolean).join(" and ");
        if (evidence.count === 0)
          return passed(`callers and ${books} agree over ${calls} calls, ${unknown} without an answer`, EXPECTED);
        if (!drained) return inconclusive("the books were read before the stage was drained", EXPECTED, evidence.first);
        return failed("the books do not agree", EXPECTED, evidence);
      },
    };
  },
};
