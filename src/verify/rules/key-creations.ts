/** Creations of keys that must be refused, and the rights of created keys. Only members shown to be read count. */
import type { RefusalName } from "../../contract/refusals.ts";
import type { AdminRole } from "../../target/roles.ts";
import { ANY_SUCCESS, fits, recorded, skipped } from "../checks.ts";
import type { Context } from "../context.ts";
import * as keys from "../keys/managed-keys.ts";
import type { Needs } from "../planning/needs.ts";
import { type Cost, type Rule, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { firstUse, until } from "../sending/settling.ts";
import { FORMS } from "../sending/test-call.ts";

const { must, info } = rulesOf("management", { needs: { permission: "writes", roles: ["admin_pro"] } });

const ANY_ADMIN: readonly AdminRole[] = ["admin_pro", "admin_key_limit", "admin_free"];

/** Returns why an unexpected answer to a creation proves nothing; `null` if it is a breach. */
type Doubt = (context: Context, answer: Answer, secret: string | null) => Promise<string | null>;

type Refused = {
  title: string;
  /** If absent, the rule needs no permission, because a refusal creates nothing. */
  writes?: true;
  cost: Cost;
  admins?: readonly AdminRole[];
  body: keys.KeyBody;
  accepts: RefusalName;
  /** Equivalent bodies, which a deployment may also call malformed. */
  others?: readonly { readonly what: string; readonly body: keys.KeyBody }[];
  doubt?: Doubt;
  /** Creations that are admitted, after which `body` must still be refused. */
  evenAfter?: readonly keys.KeyBody[];
};

const isOurs = async (context: Context, admin: AdminRole, { status }: Answer): Promise<boolean> => {
  const asked = status === 422 ? admin : ANY_ADMIN.find((other) => other !== admin && context.has(other));
  return asked !== undefined && keys.readsOurBodies(context, asked);
};

const refused = (id: string, spec: readonly number[], rule: Refused): Rule => {
  const { title, writes, cost, admins = ANY_ADMIN, body, accepts, others = [], doubt, evenAfter = [] } = rule;
  const roles: Needs = admins.length === 1 ? { roles: admins } : { anyOf: admins };
  // Not `must`, whose rules all need the permission to write.
  return rulesOf("management").must(id, spec, {
    ...{ title, cost, needs: { ...roles, ...(writes ? { permission: "writes" } : {}) } },
    step: async (context, checks) => {
      const admin = admins.find(context.has) as AdminRole;
      for (const { body: tried, what } of [{ body, what: undefined }, ...others]) {
        const { answer, secret } = await keys.createKey(context, admin, tried, { what });
        // Which check decides if two fail is not specified (item 135).
        if (fits(answer, "key_limit_reached") && accepts !== "key_limit_reached")
          return `the organization of ${admin} is at its key limit, and that is reported first`;
        const left = isAdmitted(answer) ? keys.noMoreKeys(context) : null;
        if (left !== null) checks.note(left);
        const or = what === undefined ? [] : (["malformed_body"] as const);
        let open: string | null = null;
        if (!fits(answer, [accepts, ...or]) && !answer.transient) {
          const otherwise = keys.notAsExpected(answer);
          if (otherwise !== null && !(await isOurs(context, admin, answer))) return otherwise;
          open = (await keys.misunderstood(context, answer)) ?? (await doubt?.(context, answer, secret)) ?? null;
        }
        if (open !== null && what === undefined) return open;
        if (open !== null) checks.note(open);
        else checks.expect(answer, accepts, [], or);
      }
      for (const given of checks.failed || keys.noMoreKeys(context) !== null ? [] : evenAfter) {
        const { answer: before } = await keys.createKey(context, admin, given);
        if (!isAdmitted(before)) continue;
        checks.expect((await keys.createKey(context, admin, body)).answer, accepts, [before]);
        break;
      }
      return "what was answered proves nothing";
    },
  });
};

const unlessRead =
  (member: keys.ListMember): Doubt =>
  async (context, answer) =>
    isAdmitted(answer) ? keys.unread(context, member, keys.adminOf(answer)) : null;

/** A key that is not a live publishable one is no breach: `env` or `kind` may have other names. */
const unlessLive: Doubt = async (context, answer, secret) => {
  if (!isAdmitted(answer)) return null;
  if (secret?.startsWith("svc_sk_") === true) return keys.notRead("the kind");
  const word = /^svc_pk_([a-z]+)_/.exec(secret ?? "")?.[1];
  if ((word !== undefined && /^(live|prod)/.test(word)) || keys.tellsText(answer, "live")) return null;
  if (word !== undefined) return `the key that was made says ${word}: ${keys.notRead("env")}`;
  // A deployment that reads `env` refuses an unknown environment.
  const strange = { ...keys.TILE_KEY, env: "floodgate-no-such-env" as "live" };
  const { answer: refusal } = await keys.createKey(context, keys.adminOf(answer), strange);
  return refusal.status === 422 || refusal.status === 400 ? null : keys.notRead("env");
};

const { allowed_origins: _, ...WITHOUT_ORIGINS } = keys.TILE_KEY;
const VENDOR = { ...keys.TILE_KEY, scopes: ["maps", "vendor"] };
/** Likely names of the acknowledgement, whose name is not specified. */
const ACKNOWLEDGEMENTS = ["vendor_acknowledged", "acknowledge_vendor"] as const;

const restricted = (context: Context) =>
  context.once("a key made for one product", async () => {
    const key = await keys.makeKey(context, { ...keys.FULL_KEY, products: ["editor"] });
    const within = await firstUse(context, keys.exchangeWith(key, "editor"));
    const beyond = isAdmitted(within)
      ? await until(context, keys.exchangeWith(key, "chat"), "product_not_allowed")
      : within;
    return { created: key.created, within, beyond };
  });

/** Whether a key is restricted to the products of its creation; `true` if that cannot be seen. */
export const keepsProducts = async (context: Context): Promise<boolean> => {
  if (!context.has("admin_pro")) return true;
  const found = await restricted(context).catch(() => null);
  return found === null || !isAdmitted(found.beyond) || found.beyond === found.within;
};

const freeMintsTiles = async (context: Context): Promise<boolean> =>
  context.has("publishable_exhausted") &&
  fits(await context.mint("publishable_exhausted", "tile"), [ANY_SUCCESS, "map_load_quota_exceeded"]);

// biome-ignore format: a table, a rule in a few lines
const REFUSED: readonly Rule[] = [
  refused("keys-unknown-scope", [3, 134, 202], {
    title: "creating a key with a scope that does not exist is answered 422 unknown_scope",
    cost: { calls: 1 }, body: { ...keys.TILE_KEY, scopes: ["maps", "floodgate-no-such-scope"] },
    accepts: "unknown_scope", doubt: unlessRead("scopes") }),
  refused("keys-unknown-product", [9, 134, 202], {
    title: "creating a key with a product that does not exist is answered 422 unknown_product",
    cost: { calls: 1 }, body: { ...keys.TILE_KEY, products: ["tile", "floodgate-no-such-product"] },
    accepts: "unknown_product", doubt: unlessRead("products") }),
  refused("keys-live-publishable-needs-origins", [49, 134, 202], {
    title: "creating a live publishable key without origins is answered 422 publishable_live_requires_origins",
    cost: { calls: 2 }, body: { ...keys.TILE_KEY, allowed_origins: [] },
    accepts: "publishable_live_requires_origins", doubt: unlessLive,
    others: [{ what: "a live publishable key without the member allowed_origins", body: WITHOUT_ORIGINS }] }),
  refused("keys-free-plan-publishable-only", [48, 129], {
    title: "a Free organization cannot create a server key: 403 free_plan_publishable_only",
    writes: true, cost: { calls: 2 }, admins: ["admin_free"], body: { kind: "server", env: "live", scopes: ["maps"] },
    accepts: keys.FREE_ONLY,
    doubt: async (context, _answer, secret) => secret?.startsWith("svc_sk_") ? null : keys.unread(context, "kind"),
    others: [{ what: "a server key of another environment", body: { kind: "server", env: "test", scopes: ["maps"] } }] }),
  refused("keys-plan-required", [130], {
    title: "an organization without a plan cannot create a key: 403 plan_required",
    writes: true, cost: { calls: 1 }, admins: ["admin_no_plan"], body: keys.TILE_KEY, accepts: "plan_required" }),
  refused("keys-vendor-needs-acknowledgement", [7, 47, 132], {
    title: "the scope vendor without its acknowledgement is answered 403 vendor_scope_requires_acknowledgement",
    writes: true, cost: { calls: 6, keys: 1 }, admins: ["admin_pro"], body: VENDOR,
    accepts: "vendor_scope_requires_acknowledgement", doubt: unlessRead("scopes"),
    others: ACKNOWLEDGEMENTS.map((flag) => ({ what: `the scope vendor with "${flag}": false`, body: { ...VENDOR, [flag]: false } })),
    // Each key needs its own acknowledgement (item 47).
    evenAfter: ACKNOWLEDGEMENTS.map((flag) => ({ ...VENDOR, [flag]: true })) }),
  refused("keys-limit-reached", [133], {
    title: "an organization at its key limit is answered 409 key_limit_reached",
    writes: true, cost: { calls: 1 }, admins: ["admin_key_limit"], body: keys.TILE_KEY, accepts: "key_limit_reached" }),
  info("keys-order", [135], {
    title: "which error decides when a creation is wrong in two ways (B5)",
    needs: { permission: "writes", roles: ["admin_free"] }, cost: { calls: 1 },
    step: async (context) => {
      const both: keys.KeyBody = { kind: "server", env: "live", scopes: ["floodgate-no-such-scope", "vendor"] };
      const { answer } = await keys.createKey(context, "admin_free", both);
      return recorded(answer.outcome, [answer]);
    },
  }),
];

export const KEY_CREATION_RULES: readonly Rule[] = [
  ...REFUSED,
  must("key-is-created", [40, 43, 49, 124, 126, 223], {
    title: "a publishable key that was created has its prefix, and mints sessions from its origin only",
    cost: { calls: 4, keys: 1 },
    step: async (context, checks) => {
      const before = context.answers.length;
      const key = await keys.makeKey(context, keys.FULL_KEY).catch((error: unknown) => {
        // Whatever the members are called, a body that is not understood must be refused.
        const failed = context.answers.slice(before).find(keys.isServerError);
        if (failed === undefined) throw error;
        return failed;
      });
      if (!("created" in key)) return void checks.require(false, key, "a key, or a refusal", inWords(key));
      const { created } = key;
      const used = await firstUse(context, keys.exchangeWith(key, "chat"));
      await keys.mustHaveRead(context, used);
      checks.require(key.secret.startsWith("svc_pk_"), created, "a key with the prefix svc_pk_", "it had another");
      checks.admits(used, [created]);
      const elsewhere = { originValue: "https://elsewhere.example", origin: "foreign" } as const;
      const foreign = await context.send(keys.exchangeWith(key, "chat", elsewhere));
      const unseen = isAdmitted(foreign) ? await keys.unread(context, "allowed_origins") : null;
      if (unseen !== null) checks.note(unseen);
      else checks.expect(foreign, "session_origin_mismatch", [created]);
    },
  }),
  must("key-products-are-kept", [45], {
    title: "a key that was created for one product mints no other: 403 product_not_allowed",
    cost: { calls: 4, keys: 1 },
    step: async (context, checks) => {
      const { created, within, beyond } = await restricted(context);
      keys.mustServe(within);
      checks.fine();
      if (isAdmitted(beyond)) await keys.mustRead(context, "products");
      // The key has every scope and the tier every product, so only its own restriction can refuse.
      checks.expect(beyond, "product_not_allowed", [created, within]);
    },
  }),
  must("server-key-is-created", [41, 42, 48, 129, 143, 145], {
    title: "a paid organization can create a server key; it has its prefix, serves its scopes and no browser",
    cost: { calls: 7, keys: 1 },
    step: async (context, checks) => {
      keys.mayMakeKeys(context);
      const asked: keys.KeyBody = { kind: "server", env: "live", scopes: ["design"] };
      const { answer: created, key } = await keys.createKey(context, "admin_pro", asked);
      if (created.subcode === keys.FREE_ONLY) return void checks.admits(created);
      // A plan may have other limits, which are not specified (items 13-14, 55).
      if (key === null) throw await keys.noKey(context, created, "no server key could be made");
      const isServer = key.secret.startsWith("svc_sk_");
      const used = await firstUse(context, keys.serverCallWith(key, "design.styles"));
      if (!isServer && fits(used, "publishable_requires_session")) return keys.notRead("the kind");
      checks.require(isServer, created, "a key with the prefix svc_sk_", "it had another");
      if (fits(used, "ip_not_allowed") && !checks.failed)
        throw skipped(
          "not-provided",
          "a new server key takes no call from here (what no allowlist of addresses means is item 55)",
        );
      if (fits(used, "insufficient_scope") && !checks.failed) await keys.mustRead(context, "scopes");
      const steps = [created, used];
      if (!checks.admits(used, [created])) return;
      for (const form of FORMS)
        checks.admits(await context.send(keys.serverCallWith(key, "design.styles", { form })), steps);
      const page = await context.send(keys.serverCallWith(key, "design.styles", { origin: "foreign" }));
      checks.expect(page, "server_key_in_browser", steps);
      const other = await context.send(keys.serverCallWith(key, "poi.enrich"));
      if (!isAdmitted(other) || (await keys.unread(context, "scopes")) === null)
        checks.expect(other, "insufficient_scope", steps);
    },
  }),
  must("keys-free-plan-may-publish", [48, 129], {
    title: "a Free organization is not refused a publishable key for its plan",
    expected: `no ${keys.FREE_ONLY} for a publishable key`,
    needs: { permission: "writes", roles: ["admin_free"] },
    cost: { calls: 2, keys: 1 },
    step: async (context, checks) => {
      keys.mayMakeKeys(context);
      const { answer } = await keys.createKey(context, "admin_free", keys.TILE_KEY);
      const open = await keys.misunderstood(context, answer);
      if (checks.isUnclear(answer)) return;
      if (isAdmitted(answer)) return checks.fine();
      if (open !== null) return open;
      // The key asks for nothing beyond a tier that mints tiles (items 131, 136).
      const isBeyondTier =
        answer.subcode === "tier_capability_not_allowed" &&
        (await keys.unread(context, "kind")) === null &&
        (await freeMintsTiles(context));
      if (answer.subcode === keys.FREE_ONLY || isBeyondTier) checks.expect(answer, ANY_SUCCESS);
      return keys.notAsExpected(answer) ?? `no publishable key could be made: ${inWords(answer)}`;
    },
  }),
];
