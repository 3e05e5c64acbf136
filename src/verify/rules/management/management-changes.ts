/** Changes of a key that was made (items 43, 124, 131, 137): widening beyond the tier, and origins. */
import { outcomeOf } from "../../../contract/refusals.ts";
import { ANY_SUCCESS, Checks } from "../../checks.ts";
import { type ListMember, misunderstood, notRead, readsMember, readsOrigins } from "../../keys/key-bodies.ts";
import { exchangeWith, KEY_ORIGIN, type KeyBody, updateCall } from "../../keys/key-calls.ts";
import { isServerError, makeKey, noMoreKeys, notAsExpected } from "../../keys/key-making.ts";
import { createKey } from "../../keys/managed-keys.ts";
import type { Rule } from "../../rule.ts";
import { inWords, isAdmitted } from "../../sending/answer.ts";
import { afterArrival, firstUse, until } from "../../sending/settling.ts";
import { keepsProducts } from "./created-keys.ts";

const TIER = outcomeOf("tier_capability_not_allowed");
const SCOPE = outcomeOf("insufficient_scope");
const PRODUCT = outcomeOf("product_not_allowed");
const NEEDS_ORIGINS = outcomeOf("publishable_live_requires_origins");
const MISMATCH = outcomeOf("session_origin_mismatch");

const NARROW = {
  kind: "publishable",
  env: "live",
  scopes: ["maps"],
  products: ["tile"],
  allowed_origins: [KEY_ORIGIN],
} as const;

const widening: Rule = {
  id: "keys-widening-beyond-tier",
  level: "must",
  spec: [131, 137],
  title: "a PATCH that widens a key beyond the tier is answered 403 tier_capability_not_allowed, and changes nothing",
  phase: "management",
  needs: { permission: "writes", roles: ["admin_free"] },
  cost: { calls: 6, keys: 1 },
  run: async (context) => {
    const checks = new Checks("403 tier_capability_not_allowed");
    const already = noMoreKeys(context);
    if (already !== null) return checks.result(already);
    const { answer, key } = await createKey(context, "admin_free", NARROW);
    if (key === null) {
      const known = notAsExpected(answer) ?? (await misunderstood(context, answer)) ?? noMoreKeys(context);
      const why = known ?? `no key to widen could be made: ${inWords(answer)}`;
      if (answer.transient) checks.unclear(why);
      return checks.result(why);
    }
    // What the key lacks itself is reported before what its tier lacks, so the answer shows what is stored.
    const before = await firstUse(context, exchangeWith(key, "chat"));
    const wider: readonly (readonly [ListMember, Partial<KeyBody>])[] = [
      ["scopes", { scopes: ["maps", "ai"] }],
      ["products", { products: ["tile", "chat"] }],
    ];
    for (const [member, body] of wider) {
      const patched = await context.send(updateCall("admin_free", key.id, body));
      const open = notAsExpected(patched);
      if (open !== null) checks.note(open);
      else if (patched.outcome === NEEDS_ORIGINS && !(await readsOrigins(context)))
        checks.note(notRead("allowed_origins"));
      else if (isAdmitted(patched) && !(await readsMember(context, "admin_free", member))) {
        checks.note(notRead(`the ${member}`));
      } else if (member === "products" && isAdmitted(patched) && !(await keepsProducts(context))) {
        checks.note("a creation does not keep the products given, so that naming some afterwards widens nothing");
      } else checks.expect(patched, { accepts: [TIER] }, [answer]);
    }
    if (!checks.failed && (before.outcome === SCOPE || before.outcome === PRODUCT)) {
      const after = await afterArrival(context, exchangeWith(key, "chat"), [before.outcome]);
      const widened = isAdmitted(after) || [SCOPE, PRODUCT, TIER].some((one) => one === after.outcome);
      if (after.outcome === before.outcome) checks.fine();
      else if (widened)
        checks.require(false, after, `${before.outcome}, as before the refused changes`, inWords(after));
      else checks.note(`the key could not be looked at afterwards: ${inWords(after)}`);
    }
    return checks.result("PATCH is not as expected");
  },
};

const MOVED_TO = "https://floodgate-verify-moved.example";

const origins: Rule = {
  id: "key-origins-are-changed",
  level: "must",
  spec: [43, 124],
  title: "a key whose allowed origins were changed mints sessions from the new origin, and from the old one no more",
  phase: "management",
  needs: { permission: "writes", roles: ["admin_pro"] },
  cost: { calls: 6, keys: 1 },
  run: async (context) => {
    const checks = new Checks("a session from the new origin, 403 session_origin_mismatch from the old one");
    const { key, created } = await makeKey(context, "admin_pro", { ...NARROW, scopes: ["ai"], products: ["chat"] });
    const before = await firstUse(context, exchangeWith(key, "chat"));
    if (!isAdmitted(before)) {
      if (before.transient) checks.unclear(inWords(before));
      return checks.result(`the key that was made is of no use: ${inWords(before)}`);
    }
    const patched = await context.send(updateCall("admin_pro", key.id, { allowed_origins: [MOVED_TO] }));
    if (!isAdmitted(patched)) {
      if (patched.transient) checks.unclear(inWords(patched));
      if (isServerError(patched)) checks.expect(patched, { accepts: [ANY_SUCCESS] }, [created, before]);
      return checks.result(notAsExpected(patched) ?? `PATCH was refused: ${inWords(patched)}`);
    }
    if (!(await readsOrigins(context))) return checks.result(notRead("allowed_origins"));
    const steps = [created, before, patched];
    const moved = await until(context, exchangeWith(key, "chat", { originValue: MOVED_TO }), [ANY_SUCCESS]);
    if (!checks.expect(moved, { accepts: [ANY_SUCCESS] }, steps)) return checks.result();
    const old = await until(context, exchangeWith(key, "chat", { origin: "foreign", open: true }), [MISMATCH]);
    checks.expect(old, { accepts: [MISMATCH] }, [...steps, moved]);
    return checks.result();
  },
};

export const MANAGEMENT_CHANGE_RULES: readonly Rule[] = [widening, origins];
