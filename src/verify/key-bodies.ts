/**
 * What a deployment has shown of the bodies of key management, which the specification does not show: whether it reads them
 * as they are written here. Where it does not, nothing is held against it.
 */
import { outcomeOf } from "../contract/subcodes.ts";
import type { AdminRole } from "../drivers/target.ts";
import { type Answer, isAdmitted, told } from "./answer.ts";
import type { Context } from "./context.ts";
import { createKey, KEY_ORIGIN, type KeyBody, type MadeKey } from "./managed-keys.ts";
import { CannotJudge } from "./rule.ts";

/** Subcodes that only a deployment gives which has read the fields of a creation. */
const READ_FIELDS = new Set([
  ...["unknown_scope", "unknown_product", "publishable_live_requires_origins", "free_plan_publishable_only"],
  ...["vendor_scope_requires_acknowledgement", "tier_capability_not_allowed", "key_limit_reached"],
]);

/** Whether the deployment has shown that it reads bodies as they are written here; asks in ways that create nothing. */
export const readsOurBodies = (context: Context, admin: AdminRole): Promise<boolean> =>
  context.once(`bodies of ${admin}`, async () => {
    const shown = (answer: Answer): boolean =>
      answer.probe.route === "keys.create" && (isAdmitted(answer) || READ_FIELDS.has(answer.subcode ?? ""));
    if (context.answers.some(shown)) return true;
    const wrong: KeyBody[] = [
      { kind: "publishable", env: "live", scopes: ["maps"], allowed_origins: [] },
      { kind: "publishable", env: "live", products: ["floodgate-no-such-product"], allowed_origins: [KEY_ORIGIN] },
    ];
    for (const body of wrong) if (shown((await createKey(context, admin, body)).answer)) return true;
    return false;
  });

/** A wrong value in the member, and what says that it was read under that name. */
const WRONG_VALUES: Readonly<Record<"scopes" | "products", { body: Partial<KeyBody>; subcode: string }>> = {
  scopes: { body: { scopes: ["floodgate-no-such-scope"] }, subcode: "unknown_scope" },
  products: { body: { products: ["floodgate-no-such-product"] }, subcode: "unknown_product" },
};

/** Whether a member of a creation is read by that name: a lenient deployment makes a key without what it does not know. */
export const readsMember = (context: Context, admin: AdminRole, member: "scopes" | "products"): Promise<boolean> =>
  context.once(`member ${member} of ${admin}`, async () => {
    const { body, subcode } = WRONG_VALUES[member];
    const shown = (answer: Answer): boolean => answer.probe.route === "keys.create" && answer.subcode === subcode;
    if (context.answers.some(shown)) return true;
    const good: KeyBody = { kind: "publishable", env: "live", scopes: ["maps"], allowed_origins: [KEY_ORIGIN] };
    return shown((await createKey(context, admin, { ...good, ...body })).answer);
  });

/** Says that key management is not where or what it is expected to be; that is no fault of the target. */
export const notAsExpected = (answer: Answer): string | null => {
  if (answer.status === 404 || answer.status === 405) {
    return "key management is not at /shared-api/api-keys (its paths are not shown in the specification)";
  }
  if (answer.outcome === "422 malformed_body" && !READ_FIELDS.has(answer.subcode ?? "")) {
    return "key management takes another body (its fields are not shown in the specification)";
  }
  return null;
};

/** A key to try things on; throws where there is none to be had. */
export const makeKey = async (
  context: Context,
  admin: AdminRole,
  body: KeyBody,
): Promise<{ key: MadeKey; created: Answer }> => {
  const { answer, key } = await createKey(context, admin, body);
  if (key !== null) return { key, created: answer };
  if (answer.transient) throw new CannotJudge("inconclusive", `no key could be made: ${told(answer)}`);
  if (answer.outcome === outcomeOf("key_limit_reached")) {
    throw new CannotJudge("skipped", `the organization of ${admin} is at its key limit`);
  }
  if (isAdmitted(answer)) {
    throw new CannotJudge("skipped", "the answer to the creation has no id and key that could be found");
  }
  const otherwise = notAsExpected(answer);
  throw new CannotJudge(
    otherwise === null ? "inconclusive" : "skipped",
    otherwise ?? `no key could be made: ${told(answer)}`,
  );
};
