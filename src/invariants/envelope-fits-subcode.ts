/**
 * Clients find the subcode by the envelope: flat for four of the 429s, `detail` for the rest, none for 401 and 503 (specification
 * 7.1). Otherwise they are left with a bare status, by which they must not decide (item 188).
 */
import { REFUSAL_BY_OUTCOME } from "../contract/refusals.ts";
import type { CallLine } from "../history/line.ts";
import { isReference } from "./evidence/deployment.ts";
import { isOthersRefusal } from "./evidence/legal-answers.ts";
import { isDefinite } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, passed, unseen } from "./invariant.ts";

/** A13: the specification lists them neither as flat nor as hard stops. */
const EITHER_FORM = new Set(["429 limiter_unavailable", "429 rate_limited"]);

const quotaFault = ({ quota }: CallLine): string | null => {
  if (quota === undefined) return "the quota fields are missing";
  if (quota.meter !== "map_loads") return `meter is ${JSON.stringify(quota.meter)}, not "map_loads"`;
  for (const name of ["limit", "used"] as const) {
    if (!Number.isInteger(quota[name])) return `${name} is ${JSON.stringify(quota[name])}, not an integer`;
  }
  return null;
};

/** Sentences come from servers in front of the API. A 401 carries no text at all (item 190). */
const isSentence = (outcome: string): boolean => !outcome.startsWith("401") && !/^\d{3}( \S+)?$/.test(outcome);

/** What is wrong with a refusal's form; `null` for nothing. */
const formFault = (call: CallLine, ours: boolean): string | null => {
  const { outcome, envelope } = call;
  const refusal = REFUSAL_BY_OUTCOME.get(outcome);
  if (refusal === undefined) {
    // Servers in front of the API may send JSON of their own.
    const others = /^(404|405|408|413|431|5(?!03)\d\d)\b/.test(outcome) || isOthersRefusal(call) || isSentence(outcome);
    return others && !ours ? null : `"${outcome}" is no refusal of the specification`;
  }
  if (envelope === undefined) return null;
  if (outcome === "429 map_load_quota_exceeded") {
    const fault = quotaFault(call);
    if (fault !== null) return fault;
  }
  // Item 189: any body without `detail`.
  if (refusal.envelope === "none") {
    // Items 127, 163, 164: a 401 of key management or of an ended session differs from a key's.
    if (!ours && refusal.status === 401 && isOthersRefusal(call)) return null;
    return envelope === "detail" || envelope === "both" ? `${outcome} came with a detail` : null;
  }
  if (envelope === refusal.envelope) return null;
  if (!ours && envelope === "flat" && EITHER_FORM.has(outcome)) return null;
  return `${outcome} came in the envelope "${envelope}", not "${refusal.envelope}"`;
};

export const envelopeFitsSubcode: Invariant = {
  id: "envelope-fits-subcode",
  level: "must",
  folded: true,
  spec: [59, 182, 183, 184, 185, 188, 189, 190, 216, 227],
  statement: "every refusal is one of the specification's, in the envelope that its subcode has",
  judge(facts) {
    const ours = isReference(facts);
    const evidence = new Evidence();
    let judged = 0;
    return {
      see(line) {
        if (line.type !== "call" || !isDefinite(line) || /^[23]/.test(line.outcome)) return;
        const fault = formFault(line, ours);
        if (fault !== null) evidence.breach(line.id, fault);
        else if (line.envelope !== undefined) judged += 1;
      },
      end() {
        if (evidence.count > 0) return failed("a refusal has the wrong envelope", evidence);
        if (judged === 0) return unseen("no refusal came whose body was kept");
        return passed(`${judged} refusals had the envelope that belongs to their subcode`);
      },
    };
  },
};
