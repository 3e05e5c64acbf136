/** Keys as they come from a creation (items 40-49, 124, 129, 143, 145): of use at once, and for what was asked for. */
import { outcomeOf } from "../../../contract/refusals.ts";
import { ANY_SUCCESS, Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import {
  FULL_SCOPES,
  lacksWhatWasNotRead,
  misunderstood,
  notRead,
  readsKind,
  readsMember,
  readsOrigins,
} from "../../keys/key-bodies.ts";
import { exchangeWith, KEY_ORIGIN, type KeyBody, withKey } from "../../keys/key-calls.ts";
import { isServerError, makeKey, noMoreKeys, notAsExpected } from "../../keys/key-making.ts";
import { createKey } from "../../keys/managed-keys.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { firstUse, until } from "../../sending/settling.ts";
import { FORMS, type TestCall } from "../../sending/test-call.ts";

const SCOPE = outcomeOf("insufficient_scope");
const PRODUCT = outcomeOf("product_not_allowed");
const MISMATCH = outcomeOf("session_origin_mismatch");
const BROWSER = outcomeOf("server_key_in_browser");
const NO_SESSION = outcomeOf("publishable_requires_session");
const TIER = "tier_capability_not_allowed";
const ADDRESS = outcomeOf("ip_not_allowed");
const FREE_ONLY = "free_plan_publishable_only";

const FULL = {
  kind: "publishable",
  env: "live",
  scopes: FULL_SCOPES,
  allowed_origins: [KEY_ORIGIN],
} as const satisfies KeyBody;

const needs = { permission: "writes", roles: ["admin_pro"] } as const;

const creation: Rule = {
  id: "key-is-created",
  level: "must",
  spec: [40, 43, 49, 124, 126, 223],
  title: "a publishable key that was created has its prefix, and mints sessions from its origin only",
  phase: "management",
  needs,
  cost: { calls: 4, keys: 1 },
  run: async (context) => {
    const checks = new Checks("a key svc_pk_… that the exchange accepts from its origin");
    const before = context.answers.length;
    const found = await makeKey(context, "admin_pro", FULL).catch((error: unknown) => {
      // Whatever the fields are called: a body that is not understood is refused.
      const failed = context.answers.slice(before).find(isServerError);
      if (failed === undefined) throw error;
      return failed;
    });
    if (!("key" in found)) {
      checks.require(false, found, "a key, or a refusal", inWords(found));
      return checks.result();
    }
    const { key, created } = found;
    const used = await firstUse(context, exchangeWith(key, "chat"));
    const open = await lacksWhatWasNotRead(context, used);
    if (open !== null) return checks.result(open);
    checks.require(key.secret.startsWith("svc_pk_"), created, "a key with the prefix svc_pk_", "it had another");
    checks.expect(used, { accepts: [ANY_SUCCESS] }, [created]);
    const foreign = await context.send(
      exchangeWith(key, "chat", { originValue: "https://elsewhere.example", origin: "foreign" }),
    );
    if (isAdmitted(foreign) && !(await readsOrigins(context))) checks.note(notRead("allowed_origins"));
    else checks.expect(foreign, { accepts: [MISMATCH] }, [created]);
    return checks.result();
  },
};

type Restricted = { created: Answer; within: Answer; beyond: Answer };

/** A key made for the editor alone, and what the exchange says to it. */
const restricted = (context: Context): Promise<Restricted> =>
  context.once("a key made for one product", async () => {
    const { key, created } = await makeKey(context, "admin_pro", { ...FULL, products: ["editor"] });
    const within = await firstUse(context, exchangeWith(key, "editor"));
    const beyond = isAdmitted(within) ? await until(context, exchangeWith(key, "chat"), [PRODUCT]) : within;
    return { created, within, beyond };
  });

/** Whether a key is restricted to the products of its creation; also `true` where that cannot be seen. */
export const keepsProducts = async (context: Context): Promise<boolean> => {
  if (!context.has("admin_pro")) return true;
  const found = await restricted(context).catch(() => null);
  return found === null || !isAdmitted(found.beyond) || found.beyond === found.within;
};

const products: Rule = {
  id: "key-products-are-kept",
  level: "must",
  spec: [45],
  title: "a key that was created for one product mints no other: 403 product_not_allowed",
  phase: "management",
  needs,
  cost: { calls: 4, keys: 1 },
  run: async (context) => {
    const checks = new Checks("a session for the product of the creation, 403 product_not_allowed for another");
    const { created, within, beyond } = await restricted(context);
    if (!isAdmitted(within)) {
      if (within.transient) checks.unclear(inWords(within));
      return checks.result(`the key that was made is of no use: ${inWords(within)}`);
    }
    checks.fine();
    if (isAdmitted(beyond) && !(await readsMember(context, "admin_pro", "products")))
      return new Checks(PRODUCT).result(notRead("the products"));
    // It has every scope, and its tier every product: only its own restriction can be the reason.
    checks.expect(beyond, { accepts: [PRODUCT] }, [created, within]);
    return checks.result();
  },
};

const SERVER: KeyBody = { kind: "server", env: "live", scopes: ["design"] };

const serverKey: Rule = {
  id: "server-key-is-created",
  level: "must",
  spec: [41, 42, 48, 129, 143, 145],
  title: "a paid organization can create a server key; it has its prefix, serves its scopes and no browser",
  phase: "management",
  needs,
  cost: { calls: 7, keys: 1 },
  run: async (context) => {
    const checks = new Checks("a key svc_sk_… that is served what its scopes allow");
    const already = noMoreKeys(context);
    if (already !== null) return checks.result(already);
    const { answer: created, key } = await createKey(context, "admin_pro", SERVER);
    if (created.subcode === FREE_ONLY) {
      checks.expect(created, { accepts: [ANY_SUCCESS] });
      return checks.result();
    }
    if (key === null) {
      if (created.transient) checks.unclear(inWords(created));
      // Which other reasons there may be is not stated: a plan may have more limits than are shown (items 13-14, 55).
      const known = notAsExpected(created) ?? (await misunderstood(context, created)) ?? noMoreKeys(context);
      return checks.result(known ?? `no server key could be made: ${inWords(created)}`);
    }
    const call = (route: "design.styles" | "poi.enrich", more: Partial<TestCall> = {}): TestCall =>
      withKey(key, { route, origin: "none", what: "a server key made by this run", open: true, ...more });
    const isServer = key.secret.startsWith("svc_sk_");
    const used = await firstUse(context, call("design.styles"));
    if (!isServer && used.outcome === NO_SESSION) return checks.result(notRead("the kind"));
    checks.require(isServer, created, "a key with the prefix svc_sk_", "it had another");
    if (used.outcome === ADDRESS && !checks.failed)
      return checks.result(
        "a new server key takes no call from here (what no allowlist of addresses means is item 55)",
      );
    if (used.outcome === SCOPE && !checks.failed && !(await readsMember(context, "admin_pro", "scopes")))
      return checks.result(notRead("the scopes"));
    if (!checks.expect(used, { accepts: [ANY_SUCCESS] }, [created])) return checks.result();
    for (const form of FORMS) {
      checks.expect(await context.send(call("design.styles", { form })), { accepts: [ANY_SUCCESS] }, [created, used]);
    }
    const page = await context.send(call("design.styles", { origin: "foreign" }));
    checks.expect(page, { accepts: [BROWSER] }, [created, used]);
    const other = await context.send(call("poi.enrich"));
    if (!isAdmitted(other) || (await readsMember(context, "admin_pro", "scopes")))
      checks.expect(other, { accepts: [SCOPE] }, [created, used]);
    return checks.result();
  },
};

const onFree: Rule = {
  id: "keys-free-plan-may-publish",
  level: "must",
  spec: [48, 129],
  title: "a Free organization is not refused a publishable key for its plan",
  phase: "management",
  needs: { permission: "writes", roles: ["admin_free"] },
  cost: { calls: 2, keys: 1 },
  run: async (context) => {
    const checks = new Checks(`no ${FREE_ONLY} for a publishable key`);
    const already = noMoreKeys(context);
    if (already !== null) return checks.result(already);
    const body: KeyBody = { ...FULL, scopes: ["maps"], products: ["tile"] };
    const { answer } = await createKey(context, "admin_free", body);
    const open = await misunderstood(context, answer);
    if (answer.transient) checks.unclear(inWords(answer));
    else if (isAdmitted(answer)) checks.fine();
    else if (open !== null) return checks.result(open);
    else if (answer.subcode === FREE_ONLY) checks.expect(answer, { accepts: [ANY_SUCCESS] });
    // Nothing that the key asks for is beyond a tier that mints tiles (items 131, 136).
    else if (answer.subcode === TIER && (await readsKind(context)) && (await freeMintsTiles(context)))
      checks.expect(answer, { accepts: [ANY_SUCCESS] });
    return checks.result(notAsExpected(answer) ?? `no publishable key could be made: ${inWords(answer)}`);
  },
};

/** A Free organization is admitted to tiles, or is refused for its allowance of them alone. */
const freeMintsTiles = async (context: Context): Promise<boolean> => {
  if (!context.has("publishable_exhausted")) return false;
  const answer = await context.mint("publishable_exhausted", "tile");
  return isAdmitted(answer) || answer.outcome === outcomeOf("map_load_quota_exceeded");
};

export const CREATED_KEY_RULES: readonly Rule[] = [creation, products, serverKey, onFree];
