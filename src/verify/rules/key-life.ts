/**
 * The life of a key, as its owner sees it (items 40-49, 127, 141-142, 153; A14): made, used, narrowed, widened, deleted. A
 * change may take a revocation budget to arrive; it is waited for, not demanded at once.
 */
import { outcomeOf } from "../../contract/subcodes.ts";
import type { AdminRole } from "../../drivers/target.ts";
import { type Answer, isAdmitted, told } from "../answer.ts";
import { ANY_SUCCESS, Checks } from "../checks.ts";
import type { Context } from "../context.ts";
import {
  createKey,
  deleteProbe,
  exchangeWith,
  KEY_ORIGIN,
  type MadeKey,
  notAsExpected,
  updateProbe,
} from "../managed-keys.ts";
import { role } from "../probe.ts";
import { CannotJudge, type Rule } from "../rule.ts";
import { MARGIN_MS, until } from "../settling.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");
const PRODUCT = outcomeOf("product_not_allowed");
const SCOPE = outcomeOf("insufficient_scope");
const MISMATCH = outcomeOf("session_origin_mismatch");

const BODY = {
  kind: "publishable",
  env: "live",
  scopes: ["ai", "design", "maps"],
  allowed_origins: [KEY_ORIGIN],
} as const;

const PAID: readonly AdminRole[] = ["admin_pro"];

/** A full publishable key; throws where there is none to be had. */
const made = async (context: Context): Promise<{ key: MadeKey; created: Answer }> => {
  const { answer, key } = await createKey(context, PAID[0] as AdminRole, BODY);
  if (key !== null) return { key, created: answer };
  if (answer.transient) throw new CannotJudge("inconclusive", `no key could be made: ${told(answer)}`);
  if (answer.outcome === outcomeOf("key_limit_reached")) {
    throw new CannotJudge("skipped", "the organization of admin_pro is at its key limit");
  }
  const otherwise = notAsExpected(answer);
  if (isAdmitted(answer))
    throw new CannotJudge("skipped", "the answer to the creation has no id and key that could be found");
  throw new CannotJudge(
    otherwise === null ? "inconclusive" : "skipped",
    otherwise ?? `no key could be made: ${told(answer)}`,
  );
};

const needs = { permission: "writes", roles: ["admin_pro"] } as const;

const creation: Rule = {
  id: "key-is-created",
  level: "must",
  spec: [40, 43, 49, 124, 126],
  title: "a publishable key that was created has its prefix, and mints sessions from its origin only",
  phase: "management",
  needs,
  run: async (context) => {
    const checks = new Checks("a key svc_pk_… that the exchange accepts from its origin");
    const { key, created } = await made(context);
    checks.require(key.secret.startsWith("svc_pk_"), created, "a key with the prefix svc_pk_", "it had another");
    const used = await until(context, exchangeWith(key, "chat"), [ANY_SUCCESS]);
    checks.expect(used, { accepts: [ANY_SUCCESS] }, [created]);
    const foreign = await context.send(
      exchangeWith(key, "chat", { originValue: "https://elsewhere.example", origin: "foreign" }),
    );
    checks.expect(foreign, { accepts: [MISMATCH] }, [created]);
    return checks.result();
  },
};

const narrowing: Rule = {
  id: "key-is-narrowed-and-widened",
  level: "must",
  spec: [45, 46, 137],
  title: "a key narrowed to one product mints no other, and does again when it is widened",
  phase: "management",
  needs,
  run: async (context) => {
    const checks = new Checks("403 product_not_allowed while narrowed, a session before and after");
    const { key, created } = await made(context);
    const before = await until(context, exchangeWith(key, "chat"), [ANY_SUCCESS]);
    if (!checks.expect(before, { accepts: [ANY_SUCCESS] }, [created])) return checks.result();
    const narrowed = await context.send(updateProbe("admin_pro", key.id, { products: ["editor"] }));
    if (!isAdmitted(narrowed)) return checks.result(notAsExpected(narrowed) ?? `PATCH was refused: ${told(narrowed)}`);
    const during = await until(context, exchangeWith(key, "chat"), [PRODUCT, SCOPE]);
    // It minted chat a moment ago, so neither its scopes nor its tier can be the reason.
    checks.expect(during, { accepts: [PRODUCT] }, [created, narrowed]);
    const still = await context.send(exchangeWith(key, "editor"));
    checks.expect(still, { accepts: [ANY_SUCCESS] }, [created, narrowed]);
    const widened = await context.send(updateProbe("admin_pro", key.id, { products: ["editor", "chat"] }));
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
  run: async (context) => {
    const checks = new Checks("401 from the exchange once the deletion has arrived");
    const { key, created } = await made(context);
    const used = await until(context, exchangeWith(key, "chat"), [ANY_SUCCESS]);
    if (!checks.expect(used, { accepts: [ANY_SUCCESS] }, [created])) return checks.result();
    const deleted = await context.send(deleteProbe("admin_pro", key.id));
    if (!checks.expect(deleted, { accepts: [ANY_SUCCESS] }, [created])) return checks.result();
    const dead = { facts: { state: "revoked" } } as const;
    const after = await until(context, exchangeWith(key, "chat", dead), [UNAUTHENTICATED]);
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
      checks.note(`sessions of a deleted key live on for up to ${used.fields.expires_in} s (A14)`);
    else checks.expect(session, { accepts: [UNAUTHENTICATED] }, [created, used, deleted]);
    return checks.result();
  },
};

/** Refusals of a foreign administrator: whether the key's existence is told is the deployment's affair (item 127). */
const DENIED: ReadonlySet<number> = new Set([401, 403, 404]);

const foreignAdmin: Rule = {
  id: "key-of-another-organization",
  level: "must",
  spec: [125, 127],
  title: "an administrator can neither change nor delete another organization's key",
  phase: "management",
  needs: { permission: "writes", roles: ["admin_pro"], anyOf: ["admin_free", "admin_key_limit", "admin_no_plan"] },
  run: async (context) => {
    const checks = new Checks("a refusal, and the key as it was");
    const { key, created } = await made(context);
    const own = context.target.credentials?.admin_pro?.org;
    const others = (["admin_key_limit", "admin_free", "admin_no_plan"] as const).filter(
      (admin) => context.has(admin) && (own === undefined || context.target.credentials?.[admin]?.org !== own),
    );
    for (const admin of others) {
      // What the owner's own tier would admit anyway, so that only the owner can be the reason to refuse.
      for (const probe of [updateProbe(admin, key.id, { products: ["tile"] }), deleteProbe(admin, key.id)]) {
        const answer = await context.send(probe);
        if (answer.transient) checks.unclear(told(answer));
        else {
          const denied = answer.status !== null && DENIED.has(answer.status);
          checks.require(denied, answer, "401, 403 or 404", told(answer));
        }
      }
    }
    // A breach that was seen decides; whether the key has changed as well is then not waited for.
    if (others.length > 0 && !checks.failed) {
      const soonMs = performance.now() + MARGIN_MS;
      const after = await until(context, exchangeWith(key, "chat"), [ANY_SUCCESS], soonMs);
      checks.expect(after, { accepts: [ANY_SUCCESS] }, [created]);
    }
    return checks.result("every administrator belongs to one organization");
  },
};

export const KEY_LIFE_RULES: readonly Rule[] = [creation, narrowing, deletion, foreignAdmin];
