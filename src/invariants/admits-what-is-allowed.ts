/**
 * An allowance must not end early: after a month's turn, or below five times it for a paid organization (items 204-206, 229; A8).
 * A quota refusal is legal only if the possible charges reach the cap. On a shared deployment others may have used the rest, so
 * there only refusals that contradict themselves are judged. Unknown earlier use is never assumed to be 0.
 */
import type { CallLine } from "../history/line.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { Allowances, capsOf, type Use } from "./evidence/allowance.ts";
import { isReference, skippedWhenShared } from "./evidence/deployment.ts";
import { Evidence, failed, type Invariant, passed, skipped, unseen } from "./invariant.ts";

/** The least use at which this refusal is legal; `null`: unknown. */
const legalFrom = (facts: StageFacts, refusal: CallLine, use: Use): number | null => {
  const caps = capsOf(facts, refusal.org, use.tierMoved);
  if (caps === null) return null;
  // A8: elsewhere the exchange may also refuse paid organizations at the allowance.
  const atAllowance = !isReference(facts) && refusal.outcome === "429 map_load_quota_exceeded";
  return atAllowance ? Math.min(caps.least, facts.tenants[refusal.org]?.allowance ?? 0) : caps.least;
};

/** Whether the refusal reports a use below its limit. */
const contradicts = ({ quota }: CallLine): boolean =>
  typeof quota?.limit === "number" && typeof quota.used === "number" && quota.used < quota.limit;

export const admitsWhatIsAllowed: Invariant = {
  id: "admits-what-is-allowed",
  level: "must",
  spec: [79, 80, 204, 205, 206, 225, 229],
  statement: "a map load is refused for the allowance only when the month's cap can have been reached",
  judge(facts) {
    const evidence = new Evidence();
    let legal = 0;
    let unknown = 0;
    let afterTurn = 0;
    const allowances = new Allowances(facts, (refusal, use, month, possible) => {
      if (contradicts(refusal)) {
        const { limit, used } = refusal.quota as { limit: unknown; used: unknown };
        evidence.breach(refusal.id, `refused although the answer itself says that ${used} of ${limit} are used`);
        return;
      }
      if (!facts.exclusive) return;
      const from = legalFrom(facts, refusal, use);
      const before = month === 0 ? facts.tenants[refusal.org]?.used_at_start : 0;
      if (from === null || (month === 0 && before === undefined)) unknown += 1;
      if (month === null || from === null || before === undefined) return;
      if (before + possible >= from) legal += 1;
      else {
        const used = `${before} used before and at most ${possible} in the stage`;
        evidence.breach(refusal.id, `${refusal.outcome} for ${refusal.org} with ${used}; it ends at ${from}`);
      }
    });
    return {
      see(line) {
        allowances.see(line);
      },
      end() {
        allowances.finish();
        for (const use of allowances.uses.values()) {
          for (const [number, { certain }] of use.months) if (number > 0) afterTurn += certain;
        }
        if (evidence.count > 0) return failed("an allowed map load was refused", evidence);
        if (!facts.exclusive) {
          return skippedWhenShared("others may have used up an allowance at which a call was refused");
        }
        if (legal === 0 && unknown > 0) {
          return skipped("the allowance of the refused organization and its use before the stage");
        }
        if (legal === 0 && afterTurn === 0) return unseen("no refusal for the allowance could be judged");
        return passed(`${legal} refusals for the allowance came when it can have been used up`);
      },
    };
  },
};
