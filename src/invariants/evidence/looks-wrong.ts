/**
 * Whether a call breaks a promise as far as it shows by itself, without what else happened: what is kept whole of a history
 * that is folded, with the calls around it. Judges may still find a reason for it.
 */
import type { CallLine } from "../../history/line.ts";
import { isOthersRefusal, legalAnswers } from "./legal-answers.ts";
import { isAdmitted, isDefinite } from "./moments.ts";

const CUT = new Set<CallLine["ended"]>(["truncated", "reset", "timeout"]);

/** `ours`: the deployment is the reference platform. */
export const looksWrong = (call: CallLine, ours: boolean): boolean => {
  if (!isDefinite(call) || (!ours && isOthersRefusal(call))) return false;
  if (isAdmitted(call) && CUT.has(call.ended) && call.aborted !== true) return true;
  const legal = legalAnswers(call, { ours, stateUnsettled: false });
  return legal !== null && !legal.has(call.outcome);
};
