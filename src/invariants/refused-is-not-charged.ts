/**
 * Refused calls and products without a meter are not charged (items 11, 80, 222; A9); an admitted metered call is charged once.
 * Joins calls with the ledger by id, so other callers do not matter; a store with its own ids cannot be joined.
 */
import { Charges, unsettled } from "./evidence/charges.ts";
import { isReference } from "./evidence/deployment.ts";
import { Evidence, failed, type Invariant, passed, skipped, unseen } from "./invariant.ts";

export const refusedIsNotCharged: Invariant = {
  id: "refused-is-not-charged",
  level: "must",
  folded: true,
  spec: [11, 80, 87, 112, 123, 222],
  statement: "charges less refunds are nothing for a refused call, exactly one for a metered call that was admitted",
  judge(facts) {
    const { ledger, drained } = facts;
    if (ledger === undefined) return skipped("a ledger (control.limiter, or observers.ledger)");
    const charges = new Charges(facts, drained);
    const evidence = new Evidence();
    let refused = 0;
    let charged = 0;
    let folded = 0;
    const judgeEntries = (): void => {
      for (const [id, { net, owed, open, refused: refusal, seen }] of charges.byRequest) {
        for (const [meter, sum] of net) {
          const least = owed.get(meter) ?? 0;
          if (seen === 0 && !facts.exclusive) continue;
          if (sum < 0) evidence.breach(id, `${meter} of this call add up to ${sum}`);
          // For unknown calls only a negative sum is wrong.
          if (seen === 0 || sum < 0) continue;
          if (sum < least) evidence.breach(id, `admitted and charged ${sum} ${meter}, not ${least}`);
          if (sum <= least + open) continue;
          const what = refusal === null ? "admitted" : `refused with ${refusal.outcome}`;
          evidence.breach(
            id,
            `${what} and charged ${sum} ${meter}, not ${least + open === 0 ? "nothing" : least + open}`,
          );
        }
        for (const [meter, least] of owed) {
          if (!net.has(meter)) evidence.breach(id, `admitted and charged no ${meter}`);
          charged += least;
        }
      }
    };
    return {
      see(line, alike) {
        if (line.type !== "call") return;
        if (alike !== undefined) {
          folded += alike;
          return;
        }
        const { is, known } = charges.see(line);
        if (is === "refused") refused += 1;
        if (!known && typeof is === "object" && is.owes !== null) {
          evidence.breach(line.id, `admitted on ${line.route} and not in the ledger of ${is.owes}`);
        }
      },
      end() {
        judgeEntries();
        if (!isReference(facts) && !charges.knowsOurIds()) {
          return skipped("a ledger that names the ids of our calls");
        }
        if (evidence.count > 0 && !drained && !isReference(facts)) return unsettled(evidence);
        if (evidence.count > 0) return failed("what was charged is not what was admitted", evidence);
        if (folded > 0) {
          const whole = `${refused} refused calls were charged nothing`;
          return skipped(`every call whole; ${folded} admitted calls were folded without their ids (${whole})`);
        }
        if (refused === 0) return unseen("no call was refused, so none could be charged wrongly");
        return passed(`${refused} refused calls were charged nothing, ${charged} metered ones exactly once`);
      },
    };
  },
};
