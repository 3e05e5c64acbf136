/** Errors of key management (section 7.3; items 125, 129-136). What creates nothing when it fails is tried without permission. */
import { outcomeOf } from "../../contract/subcodes.ts";
import type { AdminRole } from "../../drivers/target.ts";
import { isAdmitted, told } from "../answer.ts";
import { Checks } from "../checks.ts";
import { createKey, KEY_ORIGIN, type KeyBody, notAsExpected, readsOurBodies, updateProbe } from "../managed-keys.ts";
import { forgeries } from "../nobodies.ts";
import { FORMS, type Probe, role } from "../probe.ts";
import type { Needs, Rule } from "../rule.ts";

const publishable: KeyBody = {
  kind: "publishable",
  env: "live",
  scopes: ["maps"],
  products: ["tile"],
  allowed_origins: [KEY_ORIGIN],
};

type Refused = {
  id: string;
  spec: readonly number[];
  title: string;
  needs: Needs;
  admins: readonly AdminRole[];
  body: KeyBody;
  accepts: readonly string[];
  tolerates?: readonly string[];
};

/** A creation that must be refused. */
const refused = ({ id, spec, title, needs, admins, body, accepts, tolerates = [] }: Refused): Rule => ({
  id,
  level: "must",
  spec,
  title,
  phase: "management",
  needs,
  run: async (context) => {
    const checks = new Checks(title);
    const admin = admins.find(context.has);
    if (admin === undefined) return checks.result(`none of ${admins.join(", ")}`);
    const { answer, key } = await createKey(context, admin, body);
    const otherwise = accepts.includes(answer.outcome) ? null : notAsExpected(answer);
    const isOurs = answer.status === 422 && (await readsOurBodies(context, admin));
    if (otherwise !== null && !isOurs) return checks.result(otherwise);
    checks.expect(answer, { accepts, tolerates });
    if (isAdmitted(answer) && key === null)
      checks.note("the key that was made could not be removed: its id was not found");
    return checks.result();
  },
});

const WRITES: Needs = { permission: "writes" };
/** Organizations with a paid plan, in which nothing else stands in the way. */
const PAID: readonly AdminRole[] = ["admin_pro", "admin_key_limit"];
const ANY_ADMIN: readonly AdminRole[] = ["admin_pro", "admin_key_limit", "admin_free"];

const unknownScope = refused({
  id: "keys-unknown-scope",
  spec: [3, 134, 202],
  title: "creating a key with a scope that does not exist is answered 422 unknown_scope",
  needs: { anyOf: ANY_ADMIN },
  admins: ANY_ADMIN,
  body: { ...publishable, scopes: ["maps", "floodgate-no-such-scope"] },
  accepts: [outcomeOf("unknown_scope")],
});

const unknownProduct = refused({
  id: "keys-unknown-product",
  spec: [9, 134, 202],
  title: "creating a key with a product that does not exist is answered 422 unknown_product",
  needs: { anyOf: ANY_ADMIN },
  admins: ANY_ADMIN,
  body: { ...publishable, products: ["tile", "floodgate-no-such-product"] },
  accepts: [outcomeOf("unknown_product")],
});

const withoutOrigins = refused({
  id: "keys-live-publishable-needs-origins",
  spec: [49, 134, 202],
  title: "creating a live publishable key without origins is answered 422 publishable_live_requires_origins",
  needs: { anyOf: ANY_ADMIN },
  admins: ANY_ADMIN,
  body: { ...publishable, allowed_origins: [] },
  accepts: [outcomeOf("publishable_live_requires_origins")],
});

const freeServerKey = refused({
  id: "keys-free-plan-publishable-only",
  spec: [48, 129],
  title: "a Free organization cannot create a server key: 403 free_plan_publishable_only",
  needs: { ...WRITES, roles: ["admin_free"] },
  admins: ["admin_free"],
  body: { kind: "server", env: "live", scopes: ["maps"] },
  accepts: [outcomeOf("free_plan_publishable_only")],
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
});

const keyLimit = refused({
  id: "keys-limit-reached",
  spec: [133],
  title: "an organization at its key limit is answered 409 key_limit_reached",
  needs: { ...WRITES, roles: ["admin_key_limit"] },
  admins: ["admin_key_limit"],
  body: publishable,
  accepts: [outcomeOf("key_limit_reached")],
});

const UNAUTHENTICATED = outcomeOf("unauthenticated");

/** An administrator's token with one thing changed; none where it is no JWT. */
const forgedTokens = (token: string): { what: string; value: string }[] =>
  forgeries(`${AS_SESSION}${token}`).map(({ what, value }) => ({
    what: what.replace("a session token", "an administrator's token"),
    value: value.slice(AS_SESSION.length),
  }));
const AS_SESSION = "svc_sess_live_";

const platformKey: Rule = {
  id: "keys-not-with-a-platform-key",
  level: "must",
  spec: [125],
  title: "key management takes neither a platform key nor a forged token for an administrator's",
  phase: "management",
  needs: { ...WRITES, anyOf: PAID },
  run: async (context) => {
    const checks = new Checks("401 or 403");
    const admin = PAID.find(context.has) as AdminRole;
    const callers: Partial<Probe>[] = [
      { credential: { as: "none" }, origin: "none" },
      { credential: { as: "garbage" }, origin: "none" },
    ];
    for (const as of ["server", "publishable"] as const) {
      if (!context.has(as)) continue;
      for (const form of FORMS) callers.push({ credential: { as, of: role(as) }, origin: "none", form });
    }
    for (const { what, value } of forgedTokens(await context.secretOf(admin))) {
      const secret = { value, variable: "$FORGED_TOKEN" };
      callers.push({ credential: { as: "unknown" }, origin: "none", secret, what });
    }
    for (const caller of callers) {
      const { answer } = await createKey(context, admin, publishable, { ...caller, open: true });
      const otherwise = notAsExpected(answer);
      if (otherwise !== null && answer.status !== 422) return checks.result(otherwise);
      if (answer.transient) checks.unclear(told(answer));
      else {
        const kept = answer.status === 401 || answer.status === 403 || answer.status === 422;
        checks.require(kept, answer, "401 or 403", told(answer));
        if (kept && answer.outcome !== UNAUTHENTICATED) checks.note(`${answer.outcome} for ${caller.credential?.as}`);
      }
    }
    return checks.result();
  },
};

const widening: Rule = {
  id: "keys-widening-beyond-tier",
  level: "must",
  spec: [131, 137],
  title: "a PATCH that widens a key beyond the tier is answered 403 tier_capability_not_allowed",
  phase: "management",
  needs: { ...WRITES, roles: ["admin_free"] },
  run: async (context) => {
    const checks = new Checks("403 tier_capability_not_allowed");
    const { answer, key } = await createKey(context, "admin_free", publishable);
    if (key === null) {
      const why = notAsExpected(answer) ?? `no key to widen could be made: ${told(answer)}`;
      if (answer.transient) checks.unclear(why);
      return checks.result(why);
    }
    for (const body of [{ scopes: ["maps", "ai"] }, { products: ["tile", "chat"] }]) {
      const patched = await context.send(updateProbe("admin_free", key.id, body));
      const open = notAsExpected(patched);
      if (open !== null) checks.note(open);
      else checks.expect(patched, { accepts: [outcomeOf("tier_capability_not_allowed")] }, [answer]);
    }
    return checks.result("PATCH is not as expected");
  },
};

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
  platformKey,
  widening,
  order,
];
