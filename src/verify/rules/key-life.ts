/** Changes and deletions of a run's keys, which may take the revocation budget to arrive, and who may make them. */
import { shapeOf } from "../../contract/foreign-text.ts";
import type { AdminRole } from "../../target/roles.ts";
import { type Checks, type Fits, fits, skipped } from "../checks.ts";
import type { Context } from "../context.ts";
import * as keys from "../keys/managed-keys.ts";
import { type Rule, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { afterArrival, firstUse, until, untilEverywhere } from "../sending/settling.ts";
import {
  asNobody,
  asPublishable,
  asServer,
  FORMS,
  type Form,
  inSession,
  role,
  type TestCall,
} from "../sending/test-call.ts";
import { forgeries } from "./credentials.ts";
import { keepsProducts } from "./key-creations.ts";

const { must } = rulesOf("management", { needs: { permission: "writes", roles: ["admin_pro"] } });
const ON_FREE = { permission: "writes", roles: ["admin_free"] } as const;

/**
 * Makes a key with every right and mints a chat session with it; `null` if that is refused. Skips the rule if an unread
 * member may explain the refusal.
 */
const mintingKey = async (context: Context, checks: Checks) => {
  const key = await keys.makeKey(context, keys.FULL_KEY);
  const used = await firstUse(context, keys.exchangeWith(key, "chat"));
  await keys.mustHaveRead(context, used);
  return checks.admits(used, [key.created]) ? { key, used } : null;
};

const patch = ({ id, admin }: keys.MadeKey, change: Partial<keys.KeyBody>) => keys.updateCall(admin, id, change);

/** Whether a change was made. A refusal ends the rule, unless it is transient, `isBreach` or a server error. */
const isMade = (checks: Checks, patched: Answer, steps: readonly Answer[], isBreach = false): boolean => {
  if (isAdmitted(patched)) return true;
  const why = keys.notAsExpected(patched) ?? `PATCH was refused: ${inWords(patched)}`;
  if (patched.transient) checks.unclear(why, patched);
  else if (isBreach || keys.isServerError(patched)) checks.admits(patched, steps);
  else throw skipped("not-provided", why);
  return false;
};

/** Waits until the call is refused. Ends the rule if it stays admitted because the member is not read. */
const refusedOnceRead = async (context: Context, call: TestCall, accepts: Fits, member: keys.ListMember) => {
  const answer = await until(context, call, accepts);
  if (isAdmitted(answer)) await keys.mustRead(context, member);
  return answer;
};

const SERVER_KEY: keys.KeyBody = { kind: "server", env: "live", scopes: ["ai", "design"] };

/** A server key that is served. Ends the rule if none can be made, which other rules judge. */
const serving = async (context: Context): Promise<{ key: keys.MadeKey; steps: readonly Answer[] }> => {
  const key = await keys.makeKey(context, SERVER_KEY);
  const used = await firstUse(context, keys.serverCallWith(key, "design.styles"));
  keys.mustServe(used, "the server key that was made is not served");
  return { key, steps: [key.created, used] };
};

const MOVED_TO = "https://floodgate-verify-moved.example";
/** Documentation addresses (RFC 5737), from which no call comes. */
const ELSEWHERE = "203.0.113.0/24";

/** Whether `allowed_ips` is read: the list is returned, or an invalid one is refused. */
const readsAddresses = async (context: Context, created: Answer): Promise<boolean> => {
  if (keys.tellsText(created, ELSEWHERE) || keys.tellsText(created, ELSEWHERE.replace("/24", ""))) return true;
  for (const broken of [["floodgate-no-such-address"], 7] as readonly unknown[]) {
    const { answer } = await keys.createKey(context, "admin_pro", { ...SERVER_KEY, allowed_ips: broken as string[] });
    if (answer.status === 422 || answer.status === 400) return true;
  }
  return false;
};

/** Statuses of a refusal; item 127 leaves open whether it reveals that the key exists. */
const DENIED: ReadonlySet<number> = new Set([401, 403, 404]);

const OF_A_NARROW_KEY = ["insufficient_scope", "product_not_allowed"] as const;
const WIDER = { scopes: ["maps", "ai"], products: ["tile", "chat"] } as const;

/** Admins of paid organizations: no plan refuses their calls, so a refusal is about the credential. */
const PAID: readonly AdminRole[] = ["admin_pro", "admin_key_limit"];
const AS_SESSION = "svc_sess_live_";

/** A caller with this secret, labelled `unknown`, because the refusal says nothing about a session's life. */
const withSecret = (value: string, variable: string, what: string, form?: Form): TestCall =>
  asNobody("keys.create", { credential: { as: "unknown" }, secret: { value, variable }, form, what });

const forgedTokens = (token: string): TestCall[] =>
  forgeries(`${AS_SESSION}${token}`).map(({ what, value }) => {
    const whose = what.replace("a session token", "an administrator's token");
    return withSecret(value.slice(AS_SESSION.length), "$FORGED_TOKEN", whose);
  });

const sessionCallers = async (context: Context): Promise<TestCall[]> => {
  const minted = context.has("publishable") ? await context.mint("publishable", "editor") : null;
  const value = minted?.fields.session_token;
  if (typeof value !== "string") return [];
  return FORMS.map((form) => withSecret(value, "$SESSION_PUBLISHABLE_EDITOR", "a session", form));
};

const PRO = "admin_pro";
const NO_KEYS = ["floodgate-no-such-key", "00000000-0000-4000-8000-000000000000"];

export const KEY_LIFE_RULES: readonly Rule[] = [
  must("keys-not-with-a-platform-key", [125], {
    title: "key management refuses a platform key, a session and a forged token in place of an administrator's token",
    expected: "401 or 403",
    needs: { permission: "writes", anyOf: PAID },
    cost: { calls: 11 },
    step: async (context, checks) => {
      const admin = PAID.find(context.has) as AdminRole;
      const callers = [
        asNobody("keys.create"),
        asNobody("keys.create", { credential: { as: "garbage" } }),
        ...(context.has("server") ? FORMS.map((form) => asServer("keys.create", { form })) : []),
        ...(context.has("publishable")
          ? FORMS.map((form) => asPublishable("keys.create", { form, origin: "none" }))
          : []),
        ...(await sessionCallers(context)),
        ...forgedTokens(await context.secretOf(admin)),
      ];
      for (const caller of callers) {
        const { answer } = await keys.createKey(context, admin, keys.TILE_KEY, { ...caller, open: true });
        const otherwise = keys.notAsExpected(answer);
        if (otherwise !== null && answer.status !== 422) return otherwise;
        if (checks.isUnclear(answer)) continue;
        const isKept = answer.status === 401 || answer.status === 403 || answer.status === 422;
        checks.require(isKept, answer, "401 or 403", inWords(answer));
        if (isKept && !fits(answer, "unauthenticated")) checks.note(`${answer.outcome} for ${caller.credential.as}`);
      }
    },
  }),
  must("keys-malformed-body", [202, 223], {
    title: "a creation whose body is no JSON is answered 422, and makes no key",
    cost: { calls: 1 },
    step: async (context, checks) => {
      const { answer } = await keys.createKey(context, "admin_pro", keys.TILE_KEY, {
        // Truncated JSON, from which even a lenient parser gets no kind of key.
        body: { text: '{"name": "floodgate-verify", "allowed_origins": [', is: "malformed" },
        what: "a creation with broken JSON",
        open: true,
      });
      if (answer.status === 404 || answer.status === 405) return keys.notAsExpected(answer) ?? inWords(answer);
      if (!answer.transient && !(await keys.readsOurBodies(context, "admin_pro")))
        return "key management takes another body (its fields are not shown in the specification)";
      // The key limit may be checked before the body is read (item 135).
      checks.expect(answer, "malformed_body", [], "key_limit_reached");
    },
  }),
  must("keys-unknown-key", [223], {
    title: "a change or a deletion of a key that does not exist is answered without a server error",
    cost: { calls: 4 },
    step: async (context, checks) => {
      const change = { products: ["tile"] };
      for (const call of NO_KEYS.flatMap((id) => [keys.updateCall(PRO, id, change), keys.deleteCall(PRO, id)])) {
        const answer = await context.send({ ...call, what: "a key that does not exist", open: true });
        if (answer.status === null || answer.transient) checks.unclear(inWords(answer), answer);
        else checks.require(answer.status < 500, answer, "a refusal", inWords(answer));
        if (isAdmitted(answer))
          checks.note(`${answer.outcome} for ${answer.request.method} of a key that does not exist`);
      }
    },
  }),
  must("keys-widening-beyond-tier", [131, 137], {
    title: "a PATCH that widens a key beyond the tier is answered 403 tier_capability_not_allowed, and changes nothing",
    needs: ON_FREE,
    cost: { calls: 6, keys: 1 },
    step: async (context, checks) => {
      const key = await keys.makeKey(context, keys.TILE_KEY, "admin_free", skipped);
      // A restriction of the key is reported before one of its tier, so the answer shows what is stored.
      const before = await firstUse(context, keys.exchangeWith(key, "chat"));
      for (const member of ["scopes", "products"] as const) {
        const patched = await context.send(patch(key, { [member]: WIDER[member] }));
        let open = keys.notAsExpected(patched);
        if (patched.subcode === keys.NEEDS_ORIGINS) open ??= await keys.unread(context, "allowed_origins");
        if (isAdmitted(patched)) open ??= await keys.unread(context, member, "admin_free");
        if (open !== null) checks.note(open);
        else if (member === "products" && isAdmitted(patched) && !(await keepsProducts(context)))
          checks.note("a creation does not keep the products that it names, so naming some afterwards widens nothing");
        else checks.expect(patched, "tier_capability_not_allowed", [key.created]);
      }
      if (!checks.failed && fits(before, OF_A_NARROW_KEY)) {
        const after = await afterArrival(context, keys.exchangeWith(key, "chat"), [before.outcome]);
        const isSame = after.outcome === before.outcome;
        if (isAdmitted(after) || fits(after, [...OF_A_NARROW_KEY, "tier_capability_not_allowed"]))
          checks.require(isSame, after, `${before.outcome}, as before the refused changes`, inWords(after));
        else checks.note(`the key could not be looked at afterwards: ${inWords(after)}`);
      }
      return "PATCH is not as expected";
    },
  }),
  must("key-origins-are-changed", [43, 124], {
    title: "a key whose allowed origins were changed mints sessions from the new origin, and from the old one no more",
    expected: "a session from the new origin, 403 session_origin_mismatch from the old one",
    cost: { calls: 6, keys: 1 },
    step: async (context, checks) => {
      const key = await keys.makeKey(context, { ...keys.TILE_KEY, scopes: ["ai"], products: ["chat"] });
      const before = await firstUse(context, keys.exchangeWith(key, "chat"));
      keys.mustServe(before);
      const patched = await context.send(patch(key, { allowed_origins: [MOVED_TO] }));
      if (!isMade(checks, patched, [key.created, before])) return;
      await keys.mustRead(context, "allowed_origins");
      const steps = [key.created, before, patched];
      const moved = await until(context, keys.exchangeWith(key, "chat", { originValue: MOVED_TO }), ["2xx"]);
      if (!checks.admits(moved, steps)) return;
      const elsewhere = keys.exchangeWith(key, "chat", { origin: "foreign", open: true });
      const old = await until(context, elsewhere, "session_origin_mismatch");
      checks.expect(old, "session_origin_mismatch", [...steps, moved]);
    },
  }),
  must("key-is-narrowed-and-widened", [45, 46, 137], {
    title: "a key that is narrowed to one product mints no other one, and mints the others again once it is widened",
    expected: "403 product_not_allowed while narrowed, a session before and after",
    cost: { calls: 8, keys: 1 },
    step: async (context, checks) => {
      const made = await mintingKey(context, checks);
      if (made === null) return;
      const { key, used: before } = made;
      const narrowed = await context.send(patch(key, { products: ["editor"] }));
      // A tier that lets the key mint `editor` cannot refuse to narrow the key to `editor`.
      const isOfTier = fits(narrowed, "tier_capability_not_allowed");
      const within = isOfTier ? [await context.send(keys.exchangeWith(key, "editor"))] : [];
      if (!isMade(checks, narrowed, [key.created, before, ...within], within.some(isAdmitted))) return;
      if (narrowed.text.includes(key.secret))
        checks.note("the answer to a change shows the secret once more (item 141)");
      const during = await refusedOnceRead(context, keys.exchangeWith(key, "chat"), OF_A_NARROW_KEY, "products");
      // The key minted chat before the change, so neither scopes nor tier can refuse.
      const steps = [key.created, narrowed];
      checks.expect(during, "product_not_allowed", steps);
      checks.admits(await context.send(keys.exchangeWith(key, "editor")), steps);
      const widened = await context.send(patch(key, { products: ["editor", "chat"] }));
      if (!checks.admits(widened, steps)) return;
      checks.admits(await until(context, keys.exchangeWith(key, "chat"), ["2xx"]), [...steps, widened]);
    },
  }),
  must("deleted-key-is-dead", [61, 142, 153], {
    title: "a deleted key mints no session any more: 401",
    cost: { calls: 10, keys: 1 },
    step: async (context, checks) => {
      const made = await mintingKey(context, checks);
      if (made === null) return;
      const { key, used } = made;
      const deleted = await context.send(keys.deleteCall("admin_pro", key.id));
      if (!checks.admits(deleted, [key.created])) return;
      const steps = [key.created, used, deleted];
      const facts = { state: "revoked" } as const;
      const dead = await untilEverywhere(context, keys.exchangeWith(key, "chat", { facts }), "unauthenticated");
      checks.expect(dead, "unauthenticated", steps);
      const value = used.fields.session_token;
      if (typeof value !== "string") return;
      // A14: a token may keep its rights up to its own end, which is too long to wait for.
      const session = await context.send({
        ...inSession("chat", "poi.enrich", { originValue: keys.KEY_ORIGIN, facts, what: "a session of a deleted key" }),
        credential: { as: "session", of: role("admin_pro"), product: "chat" },
        secret: { value, variable: "$CREATED_SESSION" },
      });
      if (isAdmitted(session))
        checks.note(`sessions of a deleted key live on for up to ${shapeOf(used.fields.expires_in)} s (A14)`);
      else checks.expect(session, "unauthenticated", steps);
    },
  }),
  must("key-of-another-organization", [125, 127], {
    title: "only its own organization's administrator can change or delete a key: not another's, and no platform key",
    expected: "a refusal, and the key as it was",
    cost: { calls: 14, keys: 1 },
    step: async (context, checks) => {
      const key = await keys.makeKey(context, keys.FULL_KEY);
      const before = await firstUse(context, keys.exchangeWith(key, "chat"));
      const { credentials } = context.target;
      const own = credentials?.admin_pro?.org;
      const others = (["admin_key_limit", "admin_free", "admin_no_plan"] as const).filter(
        (admin) => context.has(admin) && (own === undefined || credentials?.[admin]?.org !== own),
      );
      const callers: TestCall["credential"][] = [
        ...[...others.map((admin) => ({ as: "admin", of: role(admin) }) as const), { as: "none" } as const],
        ...(context.has("server") ? [{ as: "server", of: role("server") } as const] : []),
      ];
      const calls = callers.flatMap((credential) => {
        const by = { credential, open: true } as const;
        // The owner's tier admits this change, so only ownership can refuse it.
        return [keys.updateCall(PRO, key.id, { products: ["tile"] }, by), keys.deleteCall(PRO, key.id, by)];
      });
      for (const answer of checks.setAsideUnclear(await Array.fromAsync(calls, context.send)))
        checks.require(DENIED.has(answer.status ?? 0), answer, "401, 403 or 404", inWords(answer));
      if (!checks.failed && isAdmitted(before))
        checks.admits(await afterArrival(context, keys.exchangeWith(key, "chat"), ["2xx"]), [key.created]);
    },
  }),
  must("key-scopes-are-taken-away", [42, 124, 137, 156], {
    title: "a server key whose scope was taken away is served no more for it: 403 insufficient_scope",
    cost: { calls: 5, keys: 1 },
    step: async (context, checks) => {
      const { key, steps } = await serving(context);
      const patched = await context.send(patch(key, { scopes: ["ai"] }));
      // The change only narrows, so a refusal for the tier is a breach.
      if (!isMade(checks, patched, steps, fits(patched, "tier_capability_not_allowed"))) return;
      const without = keys.serverCallWith(key, "design.styles");
      const after = await refusedOnceRead(context, without, "insufficient_scope", "scopes");
      checks.expect(after, "insufficient_scope", [...steps, patched]);
    },
  }),
  must("deleted-server-key-is-dead", [61, 142, 153, 190, 223], {
    title: "a server key that was in use is served no more once it is deleted: 401",
    cost: { calls: 10, keys: 1 },
    step: async (context, checks) => {
      const { key, steps } = await serving(context);
      const deleted = await context.send(keys.deleteCall("admin_pro", key.id));
      if (deleted.status === 404 || deleted.status === 405) return `DELETE was refused: ${inWords(deleted)}`;
      if (!checks.admits(deleted, steps)) return;
      const dead = keys.serverCallWith(key, "design.styles", { facts: { state: "revoked" } });
      checks.expect(await untilEverywhere(context, dead, "unauthenticated"), "unauthenticated", [...steps, deleted]);
      // The answer about a deleted key is not specified (item 141), but must not be a server error.
      const again = keys.deleteCall("admin_pro", key.id, { what: "a key that was deleted", open: true });
      const twice = await context.send(again);
      const isFailed = twice.status !== null && twice.status >= 500 && !twice.transient;
      if (isFailed) checks.require(false, twice, "a success or a refusal", inWords(twice));
    },
  }),
  must("key-addresses-are-kept", [44, 147], {
    title: "a server key that was created for other addresses is not served here: 403 ip_not_allowed",
    cost: { calls: 3, keys: 1 },
    step: async (context, checks) => {
      const key = await keys.makeKey(context, { ...SERVER_KEY, allowed_ips: [ELSEWHERE] });
      const used = await firstUse(context, keys.serverCallWith(key, "design.styles"));
      if (isAdmitted(used) && !(await readsAddresses(context, key.created))) return keys.notRead("allowed_ips");
      if (!isAdmitted(used) && !fits(used, "ip_not_allowed") && !used.transient)
        return `the server key that was made is of no use: ${inWords(used)}`;
      checks.expect(used, "ip_not_allowed", [key.created]);
    },
  }),
];
