/**
 * One customer's rush must not cost another one theirs (items 10, 211, 227): an organization that stays below its own cap
 * is never shed for it, and what a call costs is charged to the organization that made it.
 */
import { changesCaps } from "./capacity-changes.ts";
import { Evidence, failed, type Invariant, inconclusive, knownBeforehand, passed, skipped } from "./invariant.ts";
import { MostInFlight } from "./most-in-flight.ts";

const EXPECTED = "no organization is shed below its own cap, and each is charged for its own calls alone";

const ORG_SHED = "429 org_overloaded";

export const organizationsDoNotShare: Invariant = {
  id: "organizations-do-not-share",
  level: "must",
  spec: [10, 211, 220, 227],
  statement: EXPECTED,
  judge({ shedding, limits, tenants, ledger }) {
    const capsKnown = shedding === "fixed" && limits.org_in_flight !== undefined;
    if (!capsKnown && ledger === undefined) {
      return knownBeforehand(skipped("fixed shedding with limits.org_in_flight, or a ledger", EXPECTED));
    }
    const capOf = (org: string): number | undefined => tenants[org]?.in_flight_cap ?? limits.org_in_flight;
    const chargedTo = new Map<string, Set<string>>();
    for (const { request_id, org } of ledger ?? []) {
      const orgs = chargedTo.get(request_id) ?? new Set<string>();
      chargedTo.set(request_id, orgs.add(org));
    }
    const evidence = new Evidence();
    const flight = new MostInFlight(() => {});
    const calls = new Map<string, number>();
    const sheds = new Map<string, string[]>();
    const payers = new Set<string>();
    let capsMoved = false;
    return {
      see(line) {
        flight.see(line);
        capsMoved ||= changesCaps(line);
        if (line.type !== "call" || line.org === "-") return;
        calls.set(line.org, (calls.get(line.org) ?? 0) + 1);
        if (line.outcome === ORG_SHED) {
          const ids = sheds.get(line.org) ?? [];
          if (ids.length < 10) ids.push(line.id);
          sheds.set(line.org, ids);
        }
        for (const org of chargedTo.get(line.id) ?? []) {
          payers.add(org);
          if (org !== line.org) evidence.breach(line.id, `a call of ${line.org} was charged to ${org}`);
        }
      },
      end() {
        flight.finish();
        if (capsKnown && !capsMoved && !flight.lost) {
          const nobodys = flight.mostOfOrg.get("-") ?? 0;
          for (const [org, ids] of sheds) {
            const cap = capOf(org) as number;
            const most = (flight.mostOfOrg.get(org) ?? 0) + nobodys;
            if (most >= cap) continue;
            for (const id of ids)
              evidence.breach(id, `${org} was shed with at most ${most} calls in flight; its cap is ${cap}`);
          }
        }
        if (evidence.count > 0) return failed("one organization bore what was another's", EXPECTED, evidence);
        const quiet = [...calls.keys()].filter((org) => !sheds.has(org));
        if (sheds.size > 0 && quiet.length > 0) {
          return passed(
            `${sheds.size} organizations were shed for themselves, ${quiet.length} beside them were not`,
            EXPECTED,
          );
        }
        if (payers.size > 1) return passed(`${payers.size} organizations were charged for their own calls`, EXPECTED);
        return inconclusive("no organization was shed beside another, and fewer than two were charged", EXPECTED);
      },
    };
  },
};
