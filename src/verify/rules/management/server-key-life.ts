/**
 * The life of a server key that this run made (items 42, 44, 61, 137, 147, 153): its scopes are taken away, it is deleted. It
 * is used before each change, so that a record of it that is kept too long comes to light.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import { CannotJudge } from "../../cannot-judge.ts";
import { ANY_SUCCESS, Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { notRead, readsMember } from "../../keys/key-bodies.ts";
import { deleteCall, type KeyBody, type MadeKey, updateCall, withKey } from "../../keys/key-calls.ts";
import { isServerError, makeKey, notAsExpected } from "../../keys/key-making.ts";
import { tellsText } from "../../keys/made-record.ts";
import { createKey } from "../../keys/managed-keys.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { firstUse, until, untilEverywhere } from "../../sending/settling.ts";
import type { TestCall } from "../../sending/test-call.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");
const SCOPE = outcomeOf("insufficient_scope");
const TIER = outcomeOf("tier_capability_not_allowed");
const ADDRESS = outcomeOf("ip_not_allowed");

const BODY: KeyBody = { kind: "server", env: "live", scopes: ["ai", "design"] };

const needs = { permission: "writes", roles: ["admin_pro"] } as const;

const call = (key: MadeKey, route: "design.styles" | "poi.enrich", more: Partial<TestCall> = {}): TestCall =>
  withKey(key, { route, origin: "none", what: "a server key made by this run", open: true, ...more });

/** A server key that is served; throws where there is none to be had, for other rules say why. */
const serving = async (context: Context): Promise<{ key: MadeKey; steps: readonly Answer[] }> => {
  const { key, created } = await makeKey(context, "admin_pro", BODY);
  const used = await firstUse(context, call(key, "design.styles"));
  if (isAdmitted(used)) return { key, steps: [created, used] };
  throw new CannotJudge(
    used.transient ? "inconclusive" : "skipped",
    `the server key that was made is not served: ${inWords(used)}`,
  );
};

const scopes: Rule = {
  id: "key-scopes-are-taken-away",
  level: "must",
  spec: [42, 124, 137, 156],
  title: "a server key whose scope was taken away is served no more for it: 403 insufficient_scope",
  phase: "management",
  needs,
  cost: { calls: 5, keys: 1 },
  run: async (context) => {
    const checks = new Checks("403 insufficient_scope once the change has arrived");
    const { key, steps } = await serving(context);
    const patched = await context.send(updateCall("admin_pro", key.id, { scopes: ["ai"] }));
    if (patched.transient) checks.unclear(inWords(patched));
    // Nothing was widened.
    if (patched.outcome === TIER || isServerError(patched)) checks.expect(patched, { accepts: [ANY_SUCCESS] }, steps);
    if (!isAdmitted(patched)) return checks.result(notAsExpected(patched) ?? `PATCH was refused: ${inWords(patched)}`);
    const after = await until(context, call(key, "design.styles"), [SCOPE]);
    if (isAdmitted(after) && !(await readsMember(context, "admin_pro", "scopes")))
      return checks.result(notRead("the scopes"));
    checks.expect(after, { accepts: [SCOPE] }, [...steps, patched]);
    return checks.result();
  },
};

const deletion: Rule = {
  id: "deleted-server-key-is-dead",
  level: "must",
  spec: [61, 142, 153, 190, 223],
  title: "a server key that was in use is served no more once it is deleted: 401",
  phase: "management",
  needs,
  cost: { calls: 10, keys: 1 },
  run: async (context) => {
    const checks = new Checks("401 once the deletion has arrived");
    const { key, steps } = await serving(context);
    const deleted = await context.send(deleteCall("admin_pro", key.id));
    if (deleted.status === 404 || deleted.status === 405)
      return checks.result(`DELETE was refused: ${inWords(deleted)}`);
    if (!checks.expect(deleted, { accepts: [ANY_SUCCESS] }, steps)) return checks.result();
    const dead = call(key, "design.styles", { facts: { state: "revoked" } });
    const after = await untilEverywhere(context, dead, [UNAUTHENTICATED]);
    checks.expect(after, { accepts: [UNAUTHENTICATED] }, [...steps, deleted]);
    // What is answered about a key that is no more is open (item 141), but no server error.
    const twice = await context.send(deleteCall("admin_pro", key.id, { what: "a key that was deleted", open: true }));
    const failed = twice.status !== null && twice.status >= 500 && !twice.transient;
    if (failed) checks.require(false, twice, "a success or a refusal", inWords(twice));
    return checks.result();
  },
};

/** Addresses that are nobody's (RFC 5737). */
const ELSEWHERE = "203.0.113.0/24";
/** No list of addresses: by what it says, and by its type. */
const NO_ADDRESSES: readonly unknown[] = [["floodgate-no-such-address"], 7];

/** The list is returned, or a broken one is refused where this one was taken. */
const readsAddresses = async (context: Context, created: Answer): Promise<boolean> => {
  if (tellsText(created, ELSEWHERE) || tellsText(created, ELSEWHERE.replace("/24", ""))) return true;
  for (const broken of NO_ADDRESSES) {
    const { answer } = await createKey(context, "admin_pro", { ...BODY, allowed_ips: broken as string[] });
    if (answer.status === 422 || answer.status === 400) return true;
  }
  return false;
};

const addresses: Rule = {
  id: "key-addresses-are-kept",
  level: "must",
  spec: [44, 147],
  title: "a server key that was created for other addresses is not served here: 403 ip_not_allowed",
  phase: "management",
  needs,
  cost: { calls: 3, keys: 1 },
  run: async (context) => {
    const checks = new Checks("403 ip_not_allowed");
    const { key, created } = await makeKey(context, "admin_pro", { ...BODY, allowed_ips: [ELSEWHERE] });
    const used = await firstUse(context, call(key, "design.styles"));
    const isLetIn = isAdmitted(used);
    if (isLetIn && !(await readsAddresses(context, created))) return checks.result(notRead("allowed_ips"));
    if (!isLetIn && used.outcome !== ADDRESS && !used.transient)
      return checks.result(`the server key that was made is of no use: ${inWords(used)}`);
    checks.expect(used, { accepts: [ADDRESS] }, [created]);
    return checks.result();
  },
};

export const SERVER_KEY_LIFE_RULES: readonly Rule[] = [scopes, deletion, addresses];
