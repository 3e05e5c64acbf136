/** Who may manage keys, and calls that are wrong before any key is looked at (items 125, 127, 202, 223). */
import { outcomeOf } from "../../../contract/refusals.ts";
import type { AdminRole } from "../../../target/target.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { readsOurBodies } from "../../keys/key-bodies.ts";
import { deleteCall, KEY_ORIGIN, type KeyBody, updateCall } from "../../keys/key-calls.ts";
import { notAsExpected } from "../../keys/key-making.ts";
import { createKey } from "../../keys/managed-keys.ts";
import { forgeries } from "../../nobodies.ts";
import type { Rule } from "../../rule.ts";
import { inWords, isAdmitted } from "../../sending/answer.ts";
import { FORMS, role, type TestCall } from "../../sending/test-call.ts";

/** Organizations with a paid plan, in which nothing else stands in the way. */
const PAID: readonly AdminRole[] = ["admin_pro", "admin_key_limit"];

const publishable: KeyBody = {
  kind: "publishable",
  env: "live",
  scopes: ["maps"],
  products: ["tile"],
  allowed_origins: [KEY_ORIGIN],
};

const UNAUTHENTICATED = outcomeOf("unauthenticated");

/** An administrator's token with one thing changed; none where it is no JWT. */
const forgedTokens = (token: string): { what: string; value: string }[] =>
  forgeries(`${AS_SESSION}${token}`).map(({ what, value }) => ({
    what: what.replace("a session token", "an administrator's token"),
    value: value.slice(AS_SESSION.length),
  }));
const AS_SESSION = "svc_sess_live_";

/**
 * None where no session is to be had: the other callers are tried all the same. Sent as what is no credential here: that
 * it is refused says nothing of its life.
 */
const sessionCallers = async (context: Context): Promise<Partial<TestCall>[]> => {
  if (!context.has("publishable")) return [];
  const { session_token: value } = (await context.mint("publishable", "editor")).fields;
  if (typeof value !== "string") return [];
  const secret = { value, variable: "$SESSION_PUBLISHABLE_EDITOR" };
  return FORMS.map(
    (form) => ({ credential: { as: "unknown" }, origin: "none", secret, form, what: "a session" }) as const,
  );
};

const platformKey: Rule = {
  id: "keys-not-with-a-platform-key",
  level: "must",
  spec: [125],
  title: "key management takes neither a platform key, a session nor a forged token for an administrator's",
  phase: "management",
  needs: { permission: "writes", anyOf: PAID },
  cost: { calls: 11 },
  run: async (context) => {
    const checks = new Checks("401 or 403");
    const admin = PAID.find(context.has) as AdminRole;
    const callers: Partial<TestCall>[] = [
      { credential: { as: "none" }, origin: "none" },
      { credential: { as: "garbage" }, origin: "none" },
    ];
    for (const as of ["server", "publishable"] as const) {
      if (!context.has(as)) continue;
      for (const form of FORMS) callers.push({ credential: { as, of: role(as) }, origin: "none", form });
    }
    for (const caller of await sessionCallers(context)) callers.push(caller);
    for (const { what, value } of forgedTokens(await context.secretOf(admin))) {
      const secret = { value, variable: "$FORGED_TOKEN" };
      callers.push({ credential: { as: "unknown" }, origin: "none", secret, what });
    }
    for (const caller of callers) {
      const { answer } = await createKey(context, admin, publishable, { ...caller, open: true });
      const otherwise = notAsExpected(answer);
      if (otherwise !== null && answer.status !== 422) return checks.result(otherwise);
      if (answer.transient) checks.unclear(inWords(answer));
      else {
        const kept = answer.status === 401 || answer.status === 403 || answer.status === 422;
        checks.require(kept, answer, "401 or 403", inWords(answer));
        if (kept && answer.outcome !== UNAUTHENTICATED) checks.note(`${answer.outcome} for ${caller.credential?.as}`);
      }
    }
    return checks.result();
  },
};

/** Neither closed nor a form; what a lenient reader would make of it names no kind of key. */
const NO_JSON = '{"name": "floodgate-verify", "allowed_origins": [';

const malformed: Rule = {
  id: "keys-malformed-body",
  level: "must",
  spec: [202, 223],
  title: "a creation whose body is no JSON is answered 422, and makes no key",
  phase: "management",
  needs: { permission: "writes", roles: ["admin_pro"] },
  cost: { calls: 1 },
  run: async (context) => {
    const checks = new Checks("422");
    const { answer } = await createKey(context, "admin_pro", publishable, {
      body: { text: NO_JSON, is: "malformed" },
      what: "a creation with broken JSON",
      open: true,
    });
    if (answer.status === 404 || answer.status === 405) return checks.result(notAsExpected(answer) ?? inWords(answer));
    if (!answer.transient && !(await readsOurBodies(context, "admin_pro"))) {
      return checks.result("key management takes another body (its fields are not shown in the specification)");
    }
    // What the organization may have at all can be asked before the body is read (item 135).
    checks.expect(answer, { accepts: [outcomeOf("malformed_body")], tolerates: [outcomeOf("key_limit_reached")] });
    return checks.result();
  },
};

/** One that any deployment can read as an id, and one that only those can that take any text. */
const NO_KEYS = ["floodgate-no-such-key", "00000000-0000-4000-8000-000000000000"];

const unknownKey: Rule = {
  id: "keys-unknown-key",
  level: "must",
  spec: [223],
  title: "a change or a deletion of a key that does not exist is answered without a server error",
  phase: "management",
  needs: { permission: "writes", roles: ["admin_pro"] },
  cost: { calls: 4 },
  run: async (context) => {
    const checks = new Checks("no 5xx");
    for (const id of NO_KEYS) {
      for (const testCall of [updateCall("admin_pro", id, { products: ["tile"] }), deleteCall("admin_pro", id)]) {
        const answer = await context.send({ ...testCall, what: "a key that does not exist", open: true });
        if (answer.status === null || answer.transient) checks.unclear(inWords(answer));
        else checks.require(answer.status < 500, answer, "a refusal", inWords(answer));
        if (isAdmitted(answer))
          checks.note(`${answer.outcome} for ${answer.request.method} of a key that does not exist`);
      }
    }
    return checks.result();
  },
};

export const MANAGEMENT_CALL_RULES: readonly Rule[] = [platformKey, malformed, unknownKey];
