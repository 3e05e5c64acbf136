/**
 * The life of a key, as its owner sees it (items 45-46, 61, 125, 127, 137, 142, 153; A14): narrowed, widened, deleted. A
 * change may take a revocation budget to arrive; it is waited for, not demanded at once.
 */
import { shapeOf } from "../../../contract/foreign-text.ts";
import { outcomeOf } from "../../../contract/refusals.ts";
import { ANY_SUCCESS, Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { FULL_SCOPES, lacksWhatWasNotRead, notRead, readsMember } from "../../keys/key-bodies.ts";
import { deleteCall, exchangeWith, KEY_ORIGIN, type MadeKey, updateCall } from "../../keys/key-calls.ts";
import { isServerError, makeKey, notAsExpected } from "../../keys/key-making.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { afterArrival, firstUse, until, untilEverywhere } from "../../sending/settling.ts";
import { role, type TestCall } from "../../sending/test-call.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");
const PRODUCT = outcomeOf("product_not_allowed");
const SCOPE = outcomeOf("insufficient_scope");
const TIER = outcomeOf("tier_capability_not_allowed");

const BODY = {
  kind: "publishable",
  env: "live",
  scopes: FULL_SCOPES,
  allowed_origins: [KEY_ORIGIN],
} as const;

/** A full publishable key; throws where there is none to be had. */
const made = (context: Context): Promise<{ key: MadeKey; created: Answer }> => makeKey(context, "admin_pro", BODY);

/** The new key's first call: `null` where it was admitted, else why there is no more to see. */
const uselessFor = async (context: Context, checks: Checks, used: Answer, created: Answer): Promise<string | null> => {
  const open = await lacksWhatWasNotRead(context, used);
  if (open !== null) return open;
  return checks.expect(used, { accepts: [ANY_SUCCESS] }, [created]) ? null : "the key that was made is of no use";
};

const needs = { permission: "writes", roles: ["admin_pro"] } as const;

const narrowing: Rule = {
  id: "key-is-narrowed-and-widened",
  level: "must",
  spec: [45, 46, 137],
  title: "a key narrowed to one product mints no other, and does again when it is widened",
  phase: "management",
  needs,
  cost: { calls: 8, keys: 1 },
  run: async (context) => {
    const checks = new Checks("403 product_not_allowed while narrowed, a session before and after");
    const { key, created } = await made(context);
    const before = await firstUse(context, exchangeWith(key, "chat"));
    const useless = await uselessFor(context, checks, before, created);
    if (useless !== null) return checks.result(useless);
    const narrowed = await context.send(updateCall("admin_pro", key.id, { products: ["editor"] }));
    if (!isAdmitted(narrowed)) {
      const why = notAsExpected(narrowed) ?? `PATCH was refused: ${inWords(narrowed)}`;
      if (narrowed.transient) checks.unclear(why);
      // The tier admits what the key mints already, and nothing was widened.
      const within = narrowed.outcome === TIER ? await context.send(exchangeWith(key, "editor")) : null;
      if (within !== null && isAdmitted(within))
        checks.expect(narrowed, { accepts: [ANY_SUCCESS] }, [created, before, within]);
      if (isServerError(narrowed)) checks.expect(narrowed, { accepts: [ANY_SUCCESS] }, [created, before]);
      return checks.failed || narrowed.transient ? checks.result() : new Checks("a PATCH").result(why);
    }
    if (narrowed.text.includes(key.secret)) checks.note("a change returns the key once more (item 141)");
    const during = await until(context, exchangeWith(key, "chat"), [PRODUCT, SCOPE]);
    if (isAdmitted(during) && !(await readsMember(context, "admin_pro", "products")))
      return new Checks("a PATCH").result(notRead("the products"));
    // It minted chat a moment ago, so neither its scopes nor its tier can be the reason.
    checks.expect(during, { accepts: [PRODUCT] }, [created, narrowed]);
    const still = await context.send(exchangeWith(key, "editor"));
    checks.expect(still, { accepts: [ANY_SUCCESS] }, [created, narrowed]);
    const widened = await context.send(updateCall("admin_pro", key.id, { products: ["editor", "chat"] }));
    if (!checks.expect(widened, { accepts: [ANY_SUCCESS] }, [created, narrowed])) return checks.result();
    const after = await until(context, exchangeWith(key, "chat"), [ANY_SUCCESS]);
    checks.expect(after, { accepts: [ANY_SUCCESS] }, [created, narrowed, widened]);
    return checks.result();
  },
};

const deletion: Rule = {
  id: "deleted-key-is-dead",
  level: "must",
  spec: [61, 142, 153],
  title: "a deleted key mints no session any more: 401",
  phase: "management",
  needs,
  cost: { calls: 10, keys: 1 },
  run: async (context) => {
    const checks = new Checks("401 from the exchange once the deletion has arrived");
    const { key, created } = await made(context);
    const used = await firstUse(context, exchangeWith(key, "chat"));
    const useless = await uselessFor(context, checks, used, created);
    if (useless !== null) return checks.result(useless);
    const deleted = await context.send(deleteCall("admin_pro", key.id));
    if (!checks.expect(deleted, { accepts: [ANY_SUCCESS] }, [created])) return checks.result();
    const dead = { facts: { state: "revoked" } } as const;
    const after = await untilEverywhere(context, exchangeWith(key, "chat", dead), [UNAUTHENTICATED]);
    checks.expect(after, { accepts: [UNAUTHENTICATED] }, [created, used, deleted]);
    const token = used.fields.session_token;
    if (typeof token !== "string") return checks.result();
    // A14: the token may be frozen, and then lives to its own end; that is too long to wait for.
    const session = await context.send({
      route: "poi.enrich",
      credential: { as: "session", of: role("admin_pro"), product: "chat" },
      secret: { value: token, variable: "$CREATED_SESSION" },
      origin: "listed",
      originValue: KEY_ORIGIN,
      facts: { state: "revoked" },
      what: "a session of a deleted key",
    });
    if (isAdmitted(session))
      checks.note(`sessions of a deleted key live on for up to ${shapeOf(used.fields.expires_in)} s (A14)`);
    else checks.expect(session, { accepts: [UNAUTHENTICATED] }, [created, used, deleted]);
    return checks.result();
  },
};

/** Refusals of a foreign administrator: whether the answer shows that the key exists is the deployment's affair (item 127). */
const DENIED: ReadonlySet<number> = new Set([401, 403, 404]);

const foreignAdmin: Rule = {
  id: "key-of-another-organization",
  level: "must",
  spec: [125, 127],
  title: "only its own organization's administrator can change or delete a key: not another's, and no platform key",
  phase: "management",
  needs: { permission: "writes", roles: ["admin_pro"] },
  cost: { calls: 14, keys: 1 },
  run: async (context) => {
    const checks = new Checks("a refusal, and the key as it was");
    const { key, created } = await made(context);
    const before = await firstUse(context, exchangeWith(key, "chat"));
    const own = context.target.credentials?.admin_pro?.org;
    const others = (["admin_key_limit", "admin_free", "admin_no_plan"] as const).filter(
      (admin) => context.has(admin) && (own === undefined || context.target.credentials?.[admin]?.org !== own),
    );
    const callers: Partial<TestCall>[] = others.map((admin) => ({ credential: { as: "admin", of: role(admin) } }));
    callers.push({ credential: { as: "none" } });
    if (context.has("server")) callers.push({ credential: { as: "server", of: role("server") } });
    for (const who of callers) {
      const caller = { ...who, open: true } as const;
      // What the owner's own tier would admit anyway, so that only the owner can be the reason to refuse.
      const change = updateCall("admin_pro", key.id, { products: ["tile"] }, caller);
      for (const testCall of [change, deleteCall("admin_pro", key.id, caller)]) {
        const answer = await context.send(testCall);
        if (answer.transient) checks.unclear(inWords(answer));
        else {
          const denied = answer.status !== null && DENIED.has(answer.status);
          checks.require(denied, answer, "401, 403 or 404", inWords(answer));
        }
      }
    }
    // A breach that was seen decides; whether the key has changed as well is then not waited for.
    if (!checks.failed && isAdmitted(before)) {
      const after = await afterArrival(context, exchangeWith(key, "chat"), [ANY_SUCCESS]);
      checks.expect(after, { accepts: [ANY_SUCCESS] }, [created]);
    }
    return checks.result();
  },
};

export const KEY_LIFE_RULES: readonly Rule[] = [narrowing, deletion, foreignAdmin];
