/**
 * A wrong subcode misleads clients. The order of checks is specified for the exchange and chosen for the rest; this judge walks
 * it independently of the platform, by each caller's own facts. Answers due to overload and faults are judged elsewhere.
 */
import { admissionOf } from "../contract/refusals.ts";
import type { CallLine } from "../history/line.ts";
import { isReference } from "./evidence/deployment.ts";
import { isOthersRefusal, legalAnswers } from "./evidence/legal-answers.ts";
import { isDefinite, Settling } from "./evidence/moments.ts";
import { RecordChanges } from "./evidence/record-changes.ts";
import { Evidence, failed, type Invariant, passed, unseen } from "./invariant.ts";

const said = (call: CallLine, legal: ReadonlySet<string>): string => {
  const f = call.facts as NonNullable<CallLine["facts"]>;
  const known = [`credential ${f.credential}`, f.state, `origin ${f.origin}`, f.product, `body ${f.body}`];
  const facts = known.filter((fact) => fact !== undefined).join(", ");
  return `${call.route} answered ${call.outcome} where only ${[...legal].join(" | ")} fit (${facts})`;
};

export const firstFailingCheckDecides: Invariant = {
  id: "first-failing-check-decides",
  level: "must",
  folded: true,
  spec: [68, 69, 70, 71, 72, 74, 75, 76, 77, 78, 79, 80, 81, 145, 147, 149, 150, 151, 153, 156, 158, 161, 162, 202],
  statement: "every call is answered by the first check that it fails, and admitted only when it fails none",
  judge(facts) {
    const ours = isReference(facts);
    const changes = new RecordChanges(facts);
    const evidence = new Evidence();
    let judged = 0;
    // Held until no change of a record can explain them.
    const suspects = new Settling((call) => {
      const legal = legalAnswers(call, { ours, stateUnsettled: changes.isYoung(call) });
      if (legal === null || legal.has(admissionOf(call.outcome)) || changes.touches(call)) return;
      evidence.breach(call.id, said(call, legal));
    });
    return {
      see(line, alike = 1) {
        suspects.reach(line);
        changes.see(line);
        if (line.type !== "call" || !isDefinite(line)) return;
        if (!ours && isOthersRefusal(line)) return;
        const legal = legalAnswers(line, { ours, stateUnsettled: false });
        if (legal === null) return;
        judged += alike;
        if (!legal.has(admissionOf(line.outcome))) suspects.add(line);
      },
      end() {
        suspects.finish();
        if (evidence.count > 0) return failed("a call was not answered by the first check that it fails", evidence);
        if (judged === 0) return unseen("no call came with the facts to judge its answer by");
        return passed(`${judged} calls were answered by the first check that they fail`);
      },
    };
  },
};
