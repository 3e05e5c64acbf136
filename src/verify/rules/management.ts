/** Creations that must be refused (section 7.3; items 129-136). What creates nothing when it fails is tried without permission. */
import { outcomeOf } from "../../contract/subcodes.ts";
import type { AdminRole } from "../../drivers/target.ts";
import { type Answer, isAdmitted } from "../answer.ts";
import { Checks, fits } from "../checks.ts";
import type { Context } from "../context.ts";
import {
  type ListMember,
  misunderstood,
  noMoreKeys,
  notAsExpected,
  notRead,
  readsKind,
  readsMember,
  readsOurBodies,
} from "../key-bodies.ts";
import { tellsText } from "../made-record.ts";
import { createKey, KEY_ORIGIN, type KeyBody } from "../managed-keys.ts";
import type { Needs, Rule } from "../rule.ts";

const MALFORMED = outcomeOf("malformed_body");
const LIMIT = outcomeOf("key_limit_reached");

const publishable = {
  kind: "publishable",
  env: "live",
  scopes: ["maps"],
  products: ["tile"],
  allowed_origins: [KEY_ORIGIN],
} as const satisfies KeyBody;

/** Why a creation that was let in, or refused in other words, proves nothing; `null` where it is a breach. */
type Doubt = (context: Context, answer: Answer, secret: string | null) => Promise<string | null>;

type Refused = {
  id: string;
  spec: readonly number[];
  title: string;
  needs: Needs;
  admins: readonly AdminRole[];
  body: KeyBody;
  accepts: readonly string[];
  /** The same said in other ways; a deployment may find them malformed. */
  others?: readonly { readonly what: string; readonly body: KeyBody }[];
  doubt?: Doubt;
  /** A creation that is let in, and after which the body is refused as before. */
  evenAfter?: readonly KeyBody[];
};

const never: Doubt = () => Promise.resolve(null);

/** Let in although the member is wrong: a breach only where the member is read. */
const unlessRead =
  (member: ListMember): Doubt =>
  async (context, answer) =>
    !isAdmitted(answer) || (await readsMember(context, adminOf(answer), member)) ? null : notRead(`the ${member}`);

const adminOf = ({ probe }: Answer): AdminRole =>
  ("of" in probe.credential ? probe.credential.of.replace(/^role:/, "") : "admin_pro") as AdminRole;

/**
 * Whether it was key management that spoke: what is malformed may be so for another member than the one that the rule is about,
 * and where another administrator is understood, a path that is not found was found.
 */
const isOurs = (context: Context, admin: AdminRole, { status }: Answer): Promise<boolean> => {
  const asked = status === 422 ? admin : ANY_ADMIN.find((other) => other !== admin && context.has(other));
  return asked === undefined ? Promise.resolve(false) : readsOurBodies(context, asked);
};

/** A creation that must be refused. */
const refused = ({ others = [], evenAfter = [], doubt = never, ...rule }: Refused): Rule => ({
  id: rule.id,
  level: "must",
  spec: rule.spec,
  title: rule.title,
  phase: "management",
  needs: rule.needs,
  run: async (context) => {
    const { admins, body, accepts } = rule;
    const checks = new Checks(rule.title);
    const admin = admins.find(context.has);
    if (admin === undefined) return checks.result(`none of ${admins.join(", ")}`);
    for (const { body: tried, what } of [{ body, what: undefined }, ...others]) {
      const { answer, secret } = await createKey(context, admin, tried, what === undefined ? {} : { what });
      // Which error decides where two apply is open (item 135).
      if (answer.outcome === LIMIT && !accepts.includes(LIMIT))
        return checks.result(`the organization of ${admin} is at its key limit, and that is told first`);
      const left = isAdmitted(answer) ? noMoreKeys(context) : null;
      if (left !== null) checks.note(left);
      const tolerates = what === undefined ? [] : [MALFORMED];
      if (!fits(answer, [...accepts, ...tolerates]) && !answer.transient) {
        const otherwise = notAsExpected(answer);
        if (otherwise !== null && !(await isOurs(context, admin, answer))) return checks.result(otherwise);
        const open = (await misunderstood(context, answer)) ?? (await doubt(context, answer, secret));
        if (open !== null && what === undefined) return checks.result(open);
        if (open !== null) {
          checks.note(open);
          continue;
        }
      }
      checks.expect(answer, { accepts, tolerates });
    }
    for (const given of checks.failed || noMoreKeys(context) !== null ? [] : evenAfter) {
      const { answer: before } = await createKey(context, admin, given);
      if (!isAdmitted(before)) continue;
      const { answer } = await createKey(context, admin, body);
      checks.expect(answer, { accepts }, [before]);
      break;
    }
    return checks.result("what was answered proves nothing");
  },
});

const WRITES: Needs = { permission: "writes" };
const ANY_ADMIN: readonly AdminRole[] = ["admin_pro", "admin_key_limit", "admin_free"];

const unknownScope = refused({
  id: "keys-unknown-scope",
  spec: [3, 134, 202],
  title: "creating a key with a scope that does not exist is answered 422 unknown_scope",
  needs: { anyOf: ANY_ADMIN },
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
  admins: ANY_ADMIN,
  body: { ...publishable, products: ["tile", "floodgate-no-such-product"] },
  accepts: [outcomeOf("unknown_product")],
  doubt: unlessRead("products"),
});

const { allowed_origins: _, ...withoutTheMember } = publishable;

/** A live key for browsers, as far as what was made tells: `env` may have another name, or the kind. */
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
  admins: ["admin_no_plan"],
  body: publishable,
  accepts: [outcomeOf("plan_required")],
});

const vendorAcknowledged = refused({
  id: "keys-vendor-needs-acknowledgement",
  spec: [7, 47, 132],
  title: "the scope vendor without its acknowledgement is answered 403 vendor_scope_requires_acknowledgement",
  needs: { ...WRITES, roles: ["admin_pro"] },
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
    ...{ ...publishable, scopes: ["maps", "vendor"], [flag]: true },
  })),
});

const keyLimit = refused({
  id: "keys-limit-reached",
  spec: [133],
  title: "an organization at its key limit is answered 409 key_limit_reached",
  needs: { ...WRITES, roles: ["admin_key_limit"] },
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
