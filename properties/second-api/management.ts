/**
 * `/shared-api/api-keys`: checks the manager and the key, then deletes, changes or creates it. Defects of authority, of the
 * 404, of the number of keys or of what is stored belong here; the rules for keys are in `key-rules.ts`.
 */
import type { IncomingMessage } from "node:http";
import { credentialIn, keyBySecret, readToken } from "./credentials.ts";
import { bodyRead, type KeyBody, keyRefusal, recordOf, type Wanted, wantedOf } from "./key-rules.ts";
import { ORIGIN } from "./offer.ts";
import { type Reply, SERVER_ERROR } from "./replies.ts";
import { type ApiState, addKey, type Key, type Org } from "./state.ts";

/** The organization that the caller manages. */
const managedBy = (api: ApiState, req: IncomingMessage, id: string | undefined): string | undefined => {
  const { has, admins, keys } = api;
  const credential = credentialIn(api, req) ?? "";
  const byHead = has("x-api-key-manages") && req.headers["x-api-key"] === credential;
  const claimed = has("any-admin-token") ? /^[^.]+\.([^.]+)\./.exec(credential)?.[1] : undefined;
  return (
    admins.get(credential) ??
    (has("platform-key-manages") || byHead ? keyBySecret(api, credential)?.org : undefined) ??
    (has("session-manages") ? readToken(api, credential)?.key.org : undefined) ??
    (has("anybody-deletes") && req.method === "DELETE" ? keys.get(id ?? "")?.org : undefined) ??
    (claimed === undefined ? undefined : (JSON.parse(Buffer.from(claimed, "base64url").toString()).org as string))
  );
};

const readBody = (api: ApiState, text: string): { body: KeyBody } | { refusal: Reply } => {
  const { is, has, malformed } = api;
  let sent: KeyBody = {};
  try {
    if (text !== "") sent = JSON.parse(text) as KeyBody;
  } catch {
    if (has("500-on-broken-key-bodies")) return { refusal: SERVER_ERROR };
    if (!has("makes-keys-of-nothing")) return { refusal: malformed() };
    sent = { kind: "publishable", allowed_origins: [ORIGIN] };
  }
  const body = bodyRead(sent, api) as KeyBody;
  const known = ["kind", "env", "name", "scopes", "products", "allowed_origins", "acknowledge_vendor"];
  const isStrict = is("strict-key-bodies") && Object.keys(body).some((name) => !known.includes(name));
  const isTest = is("live-keys-alone") && body.env !== undefined && body.env !== "live";
  return isStrict || isTest ? { refusal: malformed() } : { body };
};

/** Answers for a key that does not exist or belongs to another organization. */
const absentReply = (api: ApiState, of: Org, key: Key | undefined, method: string): Reply | null => {
  const { is, has, detail } = api;
  if (key === undefined && has("500-on-unknown-keys")) return SERVER_ERROR;
  if (key === undefined && is("forgives-deletions") && method === "DELETE") return { status: 204 };
  if (key !== undefined && (key.org === of.id || has("any-admin-will-do"))) return null;
  if (has("refuses-and-does") && key !== undefined) key.products = ["tile"];
  return detail(404, "Not Found");
};

const remove = ({ has, lingering }: ApiState, key: Key): Reply => {
  if (has("500-on-the-second-deletion") && key.state === "revoked") return SERVER_ERROR;
  const lives = has("delete-does-nothing") || (has("server-keys-live-on") && key.kind === "sk");
  if (!lives) key.state = "revoked";
  if (has("one-replica-remembers")) lingering.add(key.id);
  return { status: 204 };
};

const change = ({ has, detail }: ApiState, key: Key, { scopes, products, origins }: Wanted): Reply => {
  if (has("500-on-changes")) return SERVER_ERROR;
  if (has("narrowing-is-beyond-tier")) return detail(403, "tier_capability_not_allowed");
  if (!has("patch-does-nothing"))
    Object.assign(key, {
      scopes: has("keeps-old-scopes") ? key.scopes : scopes,
      products,
      origins: has("keeps-old-origins") ? key.origins : origins,
    });
  return { status: 200, body: { id: key.id, scopes, products } };
};

const create = (api: ApiState, of: Org, wanted: Wanted): Reply => {
  const { is, has } = api;
  const { scopes, products, origins, publishable, isTest, body } = wanted;
  if (has("500-on-creation")) return SERVER_ERROR;
  const isForNothing = is("keys-name-their-products") && products.length === 0;
  const addresses = has("forgets-addresses") ? [] : (body.allowed_ips ?? []);
  const isHere = addresses.length === 0;
  const made = addKey(api, of.id, publishable ? "pk" : "sk", {
    scopes,
    products: has("forgets-products") ? [] : isForNothing ? ["viewer"] : products,
    origins,
    ...(publishable ? {} : { ipOk: isHere && !is("server-keys-know-no-address") }),
  });
  if (isTest) made.secret = made.secret.replace("_live_", "_test_");
  if (has("dead-server-keys") && !publishable) made.state = "revoked";
  if (has("server-keys-without-scopes") && !publishable) made.scopes = [];
  if (is("keys-arrive-late")) api.arrivesAtMs.set(made, performance.now() + 700);
  return recordOf(made, { scopes, products }, api);
};

export const manage = (api: ApiState, req: IncomingMessage, id: string | undefined, text: string): Reply => {
  const { is, has, detail, unauthenticated, malformed, orgs, keys } = api;
  const method = req.method ?? "";
  const managed = managedBy(api, req, id);
  if (managed === undefined)
    return is("detail-on-management-401") ? { status: 401, body: { detail: "not an admin" } } : unauthenticated();
  const of = orgs.get(managed) as Org;
  const read = readBody(api, text);
  if ("refusal" in read) return read.refusal;
  const key = id === undefined ? undefined : keys.get(id);
  const absent = id === undefined ? null : absentReply(api, of, key, method);
  if (absent !== null) return absent;
  if (method === "DELETE") return remove(api, key as Key);
  if (of.tier === null && has("404-without-plan")) return detail(404, "not_found");
  if (of.tier === null && !has("no-plan-needed")) return detail(403, "plan_required");
  const live = [...keys.values()].filter((one) => one.org === of.id && one.state === "valid").length;
  const full = key === undefined && live >= of.keyLimit && !has("no-key-limit");
  const noRoom = detail(has("key-limit-as-403") ? 403 : 409, "key_limit_reached");
  if (full && is("no-keys-left")) return noRoom;
  if (is("servers-are-secret") && read.body.kind === "server") return malformed();
  const wanted = wantedOf(api, read.body, key);
  const refusal = keyRefusal(api, of, wanted, key);
  if (refusal !== null) return refusal;
  if (key !== undefined) return change(api, key, wanted);
  return full ? noRoom : create(api, of, wanted);
};
