/**
 * A key to try things on, or why there is none: what stands in the way of making one is reported as such and never held against
 * the target.
 */
import { outcomeOf } from "../../contract/refusals.ts";
import type { AdminRole } from "../../target/target.ts";
import { CannotJudge } from "../cannot-judge.ts";
import type { Context } from "../context.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { misunderstood, READ_FIELDS } from "./key-bodies.ts";
import type { KeyBody, MadeKey } from "./key-calls.ts";
import { createKey, keysWithoutId, NOT_THERE } from "./managed-keys.ts";

/** Says that key management is not where or what it is expected to be; that is no fault of the target. */
export const notAsExpected = (answer: Answer): string | null => {
  if (answer.status === 404 || answer.status === 405 || (answer.status !== null && /^3/.test(`${answer.status}`))) {
    return NOT_THERE;
  }
  if (answer.outcome === "422 malformed_body" && !READ_FIELDS.has(answer.subcode ?? "")) {
    return "key management takes another body (its fields are not shown in the specification)";
  }
  return null;
};

/** Whatever the fields are called: what is not understood is refused (item 223). */
export const isServerError = ({ status, transient }: Answer): boolean => status === 500 && !transient;

/** Why no more keys are made here; `null` where there is no reason. */
export const noMoreKeys = (context: Context): string | null => {
  const left = keysWithoutId(context);
  return left.length === 0
    ? null
    : `the answer to a creation names no id: ${left.join(", ")} could not be removed and needs removing by hand, and no more keys are made`;
};

/** A key to try things on; throws where there is none to be had. */
export const makeKey = async (
  context: Context,
  admin: AdminRole,
  body: KeyBody,
): Promise<{ key: MadeKey; created: Answer }> => {
  const before = noMoreKeys(context);
  if (before !== null) throw new CannotJudge("skipped", before);
  const { answer, key } = await createKey(context, admin, body);
  if (key !== null) return { key, created: answer };
  if (answer.transient) throw new CannotJudge("inconclusive", `no key could be made: ${inWords(answer)}`);
  if (answer.outcome === outcomeOf("key_limit_reached")) {
    throw new CannotJudge("skipped", `the organization of ${admin} is at its key limit`);
  }
  if (isAdmitted(answer)) {
    throw new CannotJudge(
      "skipped",
      noMoreKeys(context) ?? "the answer to the creation has no key that could be found",
    );
  }
  const otherwise = notAsExpected(answer) ?? (await misunderstood(context, answer));
  throw new CannotJudge(
    otherwise === null ? "inconclusive" : "skipped",
    otherwise ?? `no key could be made: ${inWords(answer)}`,
  );
};
