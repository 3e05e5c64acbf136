/**
 * An organization below its cap is never shed for another's load, and each call is charged to its own organization (items 10,
 * 211, 227). The cap is judged only where nobody else calls; the charges anywhere.
 */
import { lineTimeUs } from "../history/line.ts";
import { changesCaps, isReference, isUnnamed, skippedWhenShared } from "./evidence/deployment.ts";
import { latestUs, MARK_MARGIN_US } from "./evidence/moments.ts";
import { MostInFlight } from "./evidence/most-in-flight.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped, unseen } from "./invariant.ts";

const ORG_SHED = "429 org_overloaded";

export const organizationsDoNotShare: Invariant = {
  id: "organizations-do-not-share",
  level: "must",
  spec: [10, 211, 220, 227],
  statement: "no organization is shed below its own cap, and each is charged for its own calls alone",
  judge(facts) {
    const { shedding, limits, tenants, ledger, exclusive } = facts;
    const capsStated = shedding === "fixed" && limits.org_in_flight !== undefined;
    const capsKnown = capsStated && exclusive;
    if (capsStated && !exclusive && ledger === undefined) {
      const why = "others may have filled the cap of an organization that was shed";
      return skippedWhenShared(why);
    }
    if (!capsKnown && ledger === undefined) {
      return skipped("fixed shedding with limits.org_in_flight, or a ledger");
    }
    const chargedTo = new Map<string, Set<string>>();
    for (const { request_id, org } of ledger ?? []) {
      const orgs = chargedTo.get(request_id) ?? new Set<string>();
      chargedTo.set(request_id, orgs.add(org));
    }
    const evidence = new Evidence();
    const payers = new Set<string>();
    const elsewhere = new Evidence();
    let rightlyCharged = false;
    const called = new Set<string>();
    const shed = new Set<string>();
    let capsUntilUs = Number.POSITIVE_INFINITY;
    const flight = new MostInFlight((call, _, most) => {
      const cap = tenants[call.org]?.in_flight_cap ?? limits.org_in_flight;
      if (!capsKnown || cap === undefined || latestUs(call) >= capsUntilUs) return;
      if (most < cap)
        evidence.breach(call.id, `${call.org} was shed with at most ${most} calls in flight; its cap is ${cap}`);
    }, isReference(facts));
    return {
      see(line) {
        if (changesCaps(line)) capsUntilUs = Math.min(capsUntilUs, lineTimeUs(line) - MARK_MARGIN_US);
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
        flight.finish();
        if (flight.lost) return inconclusive("a clock was off by more than a second");
        // If no organization matches, the store uses other names.
        if (elsewhere.count > 0 && (isReference(facts) || rightlyCharged)) {
          return failed("an organization was shed or charged for another's calls", elsewhere);
        }
        if (evidence.count > 0) return failed("an organization was shed or charged for another's calls", evidence);
        if (elsewhere.count > 0) {
          return skipped("a ledger that names organizations as the target file does");
        }
        const quiet = called.size - shed.size;
        if (capsKnown && shed.size > 0 && quiet > 0) {
          return passed(`${shed.size} organizations were shed for themselves, ${quiet} beside them were not`);
        }
        if (payers.size > 1) return passed(`${payers.size} organizations were charged for their own calls`);
        if (!exclusive) {
          const why = "fewer than two organizations were charged, and a shed may be due to others";
          return skippedWhenShared(why);
        }
        return unseen("no organization was shed beside another, and fewer than two were charged");
      },
    };
  },
};
