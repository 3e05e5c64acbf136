/**
 * A call needs a capability that its key stores and that its organization's current tier admits (specification 2.3; items 46, 74,
 * 75, 156). If either sufficed, features would be given away; a stale tier would keep granting them after a downgrade. Judges
 * only calls whose facts decide.
 */
import { outcomeOf } from "../contract/refusals.ts";
import { routeOf } from "../contract/routes.ts";
import type { CallLine } from "../history/line.ts";
import { either, lacksOf } from "./evidence/admitted-by.ts";
import { isReference } from "./evidence/deployment.ts";
import { mayBeRefusalUnder200 } from "./evidence/legal-answers.ts";
import { isAdmitted, Settling } from "./evidence/moments.ts";
import { RecordChanges } from "./evidence/record-changes.ts";
import { Evidence, failed, type Invariant, passed, unseen } from "./invariant.ts";

const REFUSED_FOR_CAPABILITY = new Set([
  outcomeOf("insufficient_scope"),
  outcomeOf("product_not_allowed"),
  outcomeOf("tier_capability_not_allowed"),
]);

/** Whether key and tier together admit the call; `null`: unknown, or not this judge's question. */
const isCapable = (call: CallLine, ours: boolean): boolean | null => {
  const { facts, route: name } = call;
  if (facts === undefined || name === "-" || facts.state !== "valid") return null;
  if (!ours && mayBeRefusalUnder200(call)) return null;
  const { surface } = routeOf(name);
  const ownKind =
    surface === "exchange"
      ? facts.credential === "publishable"
      : surface === "runtime" && (facts.credential === "server" || facts.credential === "session");
  if (!ownKind) return null;
  const { scope, product, tier } = lacksOf(call, facts, ours);
  // A7, A14, A15 and item 158 are open: only the reference platform is held to its reading.
  const open =
    facts.product === "viewer" ||
    facts.tier === null ||
    (facts.credential === "session" && (tier !== false || product !== false)) ||
    (facts.credential === "server" && facts.tier !== "Pro");
  if (!ours && open) return null;
  const lacks = either(scope, product, tier);
  return lacks === undefined ? null : !lacks;
};

export const admissionIsStoredAndTier: Invariant = {
  id: "admission-is-stored-and-tier",
  level: "must",
  folded: true,
  spec: [13, 46, 74, 75, 76, 77, 156, 193],
  statement: "a call is admitted if and only if its capability is stored in the key and admitted by the current tier",
  judge(facts) {
    const ours = isReference(facts);
    const changes = new RecordChanges(facts);
    const evidence = new Evidence();
    let kept = 0;
    const suspects = new Settling((call) => {
      if (changes.touches(call)) return;
      const { credential, product, tier, scopes = [] } = call.facts as NonNullable<CallLine["facts"]>;
      const what = `${credential} on ${call.route}${product === undefined ? "" : ` for ${product}`}`;
      evidence.breach(call.id, `${call.outcome} for ${what}, scopes [${scopes.join(" ")}], tier ${tier}`);
    });
    return {
      see(line) {
        suspects.reach(line);
        changes.see(line);
        if (line.type !== "call") return;
        const capable = isCapable(line, ours);
        if (capable === null) return;
        const refused = REFUSED_FOR_CAPABILITY.has(line.outcome);
        if (capable ? refused : isAdmitted(line)) suspects.add(line);
        else if (!capable && refused) kept += 1;
      },
      end() {
        suspects.finish();
        if (evidence.count > 0)
          return failed("a call was admitted or refused against stored capability and tier", evidence);
        if (kept === 0) return unseen("no call that lacks a capability was seen, so none could be admitted wrongly");
        return passed(`${kept} calls without the capability were refused for it, and none with it was`);
      },
    };
  },
};
