/**
 * Whether a call breaks a promise as far as it shows by itself, without what else happened: what is kept whole of a history
 * that is folded, with the calls around it. Judges may still find a reason for it.
 */
import { admissionOf, isUnanswered } from "../../contract/refusals.ts";
import { streamResult } from "../../contract/streams.ts";
import type { CallLine } from "../../history/line.ts";
import { isOthersRefusal, legalAnswers } from "./legal-answers.ts";
import { isAdmitted, isDefinite } from "./moments.ts";

/** `ours`: the deployment is the reference platform. */
export const looksWrong = (call: CallLine, ours: boolean): boolean => {
  if (!isDefinite(call) || (!ours && isOthersRefusal(call))) return false;
  if (isAdmitted(call) && (isUnanswered(call.outcome, call) || streamResult(call) === "cut")) return true;
  const legal = legalAnswers(call, { ours, stateUnsettled: false });
  return legal !== null && !legal.has(admissionOf(call.outcome));
};
