/**
 * A revoked key must not be admitted (items 61, 142, 153, 164; A14). Records may be one revocation budget old, whether or not the
 * key service can be reached. Open streams go on.
 */
import { isReference } from "./evidence/deployment.ts";
import { mayBeRefusalUnder200 } from "./evidence/legal-answers.ts";
import { isAdmitted, isDefinite, Settling } from "./evidence/moments.ts";
import { RecordChanges } from "./evidence/record-changes.ts";
import { Evidence, failed, type Invariant, passed, unseen } from "./invariant.ts";

export const revokedStaysOut: Invariant = {
  id: "revoked-stays-out",
  level: "must",
  spec: [61, 142, 153, 164, 190],
  statement: "a revoked or expired credential is admitted at most for the revocation budget, and never again",
  judge(facts) {
    const ours = isReference(facts);
    const changes = new RecordChanges(facts);
    const evidence = new Evidence();
    let keptOut = 0;
    const settling = new Settling((call) => {
      const { state, credential } = call.facts as { state: string; credential: string };
      // An expiry is in the record; a revocation has to arrive.
      if (state === "revoked" && (changes.isYoung(call) || changes.touches(call))) return;
      if (!isAdmitted(call)) keptOut += 1;
      else evidence.breach(call.id, `${call.outcome} on ${call.route} for a ${state} ${credential} credential`);
    });
    return {
      see(line) {
        settling.reach(line);
        changes.see(line);
        if (line.type !== "call" || line.facts === undefined || !isDefinite(line)) return;
        const { state, credential } = line.facts;
        if (state !== "revoked" && state !== "expired") return;
        // A14: elsewhere sessions of a revoked key may live until they expire.
        if (!ours && credential === "session" && state === "revoked") return;
        if (!ours && mayBeRefusalUnder200(line)) return;
        settling.add(line);
      },
      end() {
        settling.finish();
        if (evidence.count > 0) return failed("a credential that is over was admitted", evidence);
        if (keptOut === 0) return unseen("no call came with a credential that had been over for long enough");
        return passed(`${keptOut} calls with revoked or expired credentials were refused`);
      },
    };
  },
};
