/** Creations that must be refused (section 7.3; items 129-136), each wrong in one way; `refused-creations.ts` tries them. */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type ListMember, notRead, readsKind, readsMember } from "../../keys/key-bodies.ts";
import { KEY_ORIGIN, type KeyBody } from "../../keys/key-calls.ts";
import { tellsText } from "../../keys/made-record.ts";
import { createKey } from "../../keys/managed-keys.ts";
import type { Needs } from "../../planning/needs.ts";
import type { Rule } from "../../rule.ts";
import { isAdmitted } from "../../sending/answer.ts";
import { ANY_ADMIN, adminOf, type Doubt, LIMIT, refused } from "./refused-creations.ts";

const publishable = {
  kind: "publishable",
  env: "live",
  scopes: ["maps"],
  products: ["tile"],
  allowed_origins: [KEY_ORIGIN],
} as const satisfies KeyBody;

/** Admitted although the member is wrong: a breach only where the member is read. */
const unlessRead =
  (member: ListMember): Doubt =>
  async (context, answer) =>
    !isAdmitted(answer) || (await readsMember(context, adminOf(answer), member)) ? null : notRead(`the ${member}`);

const WRITES: Needs = { permission: "writes" };

const unknownScope = refused({
  id: "keys-unknown-scope",
  spec: [3, 134, 202],
  title: "creating a key with a scope that does not exist is answered 422 unknown_scope",
  needs: { anyOf: ANY_ADMIN },
  cost: { calls: 1 },
  admins: ANY_ADMIN,
  body: { ...publishable, scopes: ["maps", "floodgate-no-such-scope"] },
  accepts: [outcomeOf("unknown_scope")],
  doubt: unlessRead("scopes"),
});

const unknownProduct = refused({
  id: "keys-unknown-product",
  spec: [9, 134, 202],
  title: "creating a key with a product that does not exist is answered 422 unknown_product",
  needs: { anyOf: ANY_ADMIN },
  cost: { calls: 1 },
  admins: ANY_ADMIN,
  body: { ...publishable, products: ["tile", "floodgate-no-such-product"] },
  accepts: [outcomeOf("unknown_product")],
  doubt: unlessRead("products"),
});

const { allowed_origins: _, ...withoutTheMember } = publishable;

/** A live key for browsers, as far as what was made shows: `env` may have another name, or the kind. */
const unlessLive: Doubt = async (context, answer, secret) => {
  if (!isAdmitted(answer)) return null;
  if (secret?.startsWith("svc_sk_") === true) return notRead("the kind");
  const word = /^svc_pk_([a-z]+)_/.exec(secret ?? "")?.[1];
  if (word !== undefined && /^(live|prod)/.test(word)) return null;
  if (tellsText(answer, "live")) return null;
  if (word !== undefined) return `the key that was made says ${word}: ${notRead("env")}`;
  // Without a word in the key: an environment that does not exist is refused by whoever reads it.
  const strange = { ...publishable, env: "floodgate-no-such-env" as "live" };
  const { answer: refusal } = await createKey(context, adminOf(answer), strange);
  return refusal.status === 422 || refusal.status === 400 ? null : notRead("env");
};

const withoutOrigins = refused({
  id: "keys-live-publishable-needs-origins",
  spec: [49, 134, 202],
  title: "creating a live publishable key without origins is answered 422 publishable_live_requires_origins",
  needs: { anyOf: ANY_ADMIN },
  cost: { calls: 2 },
  admins: ANY_ADMIN,
  body: { ...publishable, allowed_origins: [] },
  accepts: [outcomeOf("publishable_live_requires_origins")],
  others: [{ what: "a live publishable key without the member allowed_origins", body: withoutTheMember }],
  doubt: unlessLive,
});

/** What is said of another kind of key is no answer to a server key. */
const unlessServerKey: Doubt = async (context, _answer, secret) => {
  if (secret?.startsWith("svc_sk_") === true) return null;
  return (await readsKind(context)) ? null : notRead("the kind");
};

const freeServerKey = refused({
  id: "keys-free-plan-publishable-only",
  spec: [48, 129],
  title: "a Free organization cannot create a server key: 403 free_plan_publishable_only",
  needs: { ...WRITES, roles: ["admin_free"] },
  cost: { calls: 2 },
  admins: ["admin_free"],
  body: { kind: "server", env: "live", scopes: ["maps"] },
  accepts: [outcomeOf("free_plan_publishable_only")],
  others: [{ what: "a server key of another environment", body: { kind: "server", env: "test", scopes: ["maps"] } }],
  doubt: unlessServerKey,
});

const planRequired = refused({
  id: "keys-plan-required",
  spec: [130],
  title: "an organization without a plan cannot create a key: 403 plan_required",
  needs: { ...WRITES, roles: ["admin_no_plan"] },
  cost: { calls: 1 },
  admins: ["admin_no_plan"],
  body: publishable,
  accepts: [outcomeOf("plan_required")],
});

const vendorAcknowledged = refused({
  id: "keys-vendor-needs-acknowledgement",
  spec: [7, 47, 132],
  title: "the scope vendor without its acknowledgement is answered 403 vendor_scope_requires_acknowledgement",
  needs: { ...WRITES, roles: ["admin_pro"] },
  cost: { calls: 6, keys: 1 },
  admins: ["admin_pro"],
  body: { ...publishable, scopes: ["maps", "vendor"] },
  accepts: [outcomeOf("vendor_scope_requires_acknowledgement")],
  doubt: unlessRead("scopes"),
  // The flag's name is not shown: each is one that a deployment may know.
  others: (["vendor_acknowledged", "acknowledge_vendor"] as const).map((flag) => ({
    what: `the scope vendor with "${flag}": false`,
    body: { ...publishable, scopes: ["maps", "vendor"], [flag]: false },
  })),
  // The acknowledgement is each key's own (item 47), not one for ever.
  evenAfter: (["vendor_acknowledged", "acknowledge_vendor"] as const).map((flag) => ({
    ...publishable,
    scopes: ["maps", "vendor"],
    [flag]: true,
  })),
});

const keyLimit = refused({
  id: "keys-limit-reached",
  spec: [133],
  title: "an organization at its key limit is answered 409 key_limit_reached",
  needs: { ...WRITES, roles: ["admin_key_limit"] },
  cost: { calls: 1 },
  admins: ["admin_key_limit"],
  body: publishable,
  accepts: [LIMIT],
});

const order: Rule = {
  id: "keys-order",
  level: "info",
  spec: [135],
  title: "which error decides when a creation is wrong in two ways (B5)",
  phase: "management",
  needs: { ...WRITES, roles: ["admin_free"] },
  cost: { calls: 1 },
  run: async (context) => {
    const both: KeyBody = { kind: "server", env: "live", scopes: ["floodgate-no-such-scope", "vendor"] };
    const { answer } = await createKey(context, "admin_free", both);
    return {
      verdict: answer.transient ? "inconclusive" : "pass",
      reason: "recorded, not judged: the specification leaves it open",
      expected: "anything",
      got: answer.outcome,
      evidence: [answer.id],
    };
  },
};

export const MANAGEMENT_RULES: readonly Rule[] = [
  unknownScope,
  unknownProduct,
  withoutOrigins,
  freeServerKey,
  planRequired,
  vendorAcknowledged,
  keyLimit,
  order,
];
