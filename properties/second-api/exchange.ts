/**
 * `POST /sdk/sessions`: the caller, the checks and their order, and the answer with a minted session. Defects that mint or
 * refuse wrongly, or that spoil the answer to a valid exchange, belong here.
 */
import type { IncomingMessage } from "node:http";
import { memberRefusal, productRead } from "./bodies.ts";
import { b64, credentialIn, isListed, isOnOtherReplica, keyBySecret, mintToken, sessionIn } from "./credentials.ts";
import { countedAs, isRateLimited, organizationShed, rateReply, takeSlot } from "./limits.ts";
import { charge } from "./map-loads.ts";
import { FREE_PRODUCTS, SCOPE_OF } from "./offer.ts";
import type { Reply } from "./replies.ts";
import { type ApiState, type Key, type Org, orgOf } from "./state.ts";

/** The parsed body of an exchange. */
type Wish = { members: Readonly<Record<string, unknown>>; isBroken: boolean; product: unknown };
type Caller = { key: Key; of: Org; bySession: boolean };
/** `reused`: the token of an earlier session, if it is given out again. */
type Attempt = Caller & { req: IncomingMessage; wish: Wish; reused: string | undefined };

type Check = (api: ApiState, attempt: Attempt) => Reply | null | Promise<Reply | null>;

const wishIn = (api: ApiState, text: string): Wish => {
  let body: unknown = {};
  let isBroken = false;
  try {
    body = JSON.parse(text);
  } catch {
    isBroken = true;
  }
  const known = typeof body === "object" && body !== null && !Array.isArray(body);
  const members = body as Wish["members"];
  return { members, isBroken, product: known ? productRead(members.product, api) : undefined };
};

const isProduct = (product: unknown): product is string => typeof product === "string" && product in SCOPE_OF;

const kind: Check = ({ is, has, detail, unauthenticated }, { key, bySession, req }) => {
  if (key.kind === "pk" && !bySession) return null;
  if (has("exchanges-server-keys")) return null;
  if (has("renews-sessions") && bySession) return null;
  if (is("browser-first") && key.kind === "sk" && req.headers.origin !== undefined)
    return detail(403, "server_key_in_browser");
  return has("wrong-kind-is-401") ? unauthenticated() : detail(403, "publishable_key_required");
};

const from: Check = (api, { key, req }) => {
  const { is, has, detail } = api;
  const { origin } = req.headers;
  const missing = origin === undefined || (is("null-is-missing") && origin === "null");
  const named = has("takes-the-referer") && req.headers.referer !== undefined;
  if (origin === "" && has("takes-an-empty-origin")) return null;
  if (has("takes-its-own-origin") && origin === `http://${req.headers.host}`) return null;
  if (missing) return has("no-origin-is-fine") || named ? null : detail(403, "origin_required");
  if (isListed(api, key, origin) || has("any-origin") || (has("takes-null-origin") && origin === "null")) return null;
  if (has("invents-a-subcode")) return detail(403, "origin_mismatch");
  return detail(403, is("legacy-origin-name") ? "origin_not_allowed" : "session_origin_mismatch");
};

const shape: Check = (api, { wish: { members, isBroken, product } }) => {
  if (!isBroken && isProduct(product)) return memberRefusal(members, api);
  return api.has("mints-anything") && !isBroken ? null : api.malformed();
};

const may: Check = ({ is, has, detail }, { key, of, wish: { product } }) => {
  if (!isProduct(product)) return null;
  const needed = SCOPE_OF[product] as string | null;
  if (needed !== null && !key.scopes.includes(needed) && !has("mints-without-scope")) {
    return detail(403, has("product-for-scope") ? "product_not_allowed" : "insufficient_scope");
  }
  if (has("refuses-chat-of-others") && of.id === "bolt" && product === "chat")
    return detail(403, "product_not_allowed");
  const free = of.tier !== "Pro" && !FREE_PRODUCTS.includes(product);
  if (free && is("tier-first")) return detail(403, "tier_capability_not_allowed");
  const restricted =
    key.products.length > 0 ? !key.products.includes(product) : product === "viewer" && !is("viewer-mints");
  if (restricted && !has("mints-any-product"))
    return detail(403, has("scope-for-product") ? "insufficient_scope" : "product_not_allowed");
  if (!free || has("remembers-the-old-tier")) return null;
  return detail(403, has("scope-for-tier") ? "insufficient_scope" : "tier_capability_not_allowed");
};

const rate: Check = (api, { key }) => (isRateLimited(api, key) ? rateReply(api) : null);

const meter: Check = (api, { of, req, reused, wish: { product } }) =>
  (product === "tile" && reused === undefined) || api.has("charges-every-mint")
    ? charge(api, of, String(req.headers["x-request-id"]))
    : null;

const orderOf = ({ is, has }: ApiState): readonly Check[] => {
  if (has("origin-before-kind")) return [from, kind, shape, may, rate, meter];
  if (has("product-before-origin")) return [kind, shape, may, from, rate, meter];
  if (has("quota-before-origin")) return [kind, meter, from, shape, may, rate];
  return is("body-first") ? [shape, kind, from, may, rate, meter] : [kind, from, shape, may, rate, meter];
};

/** `null`: a session is minted. */
const mintRefusal = async (api: ApiState, attempt: Attempt): Promise<Reply | null> => {
  for (const check of orderOf(api)) {
    const refusal = await check(api, attempt);
    if (refusal !== null) return refusal;
  }
  return null;
};

const stumble = ({ has }: ApiState, req: IncomingMessage, text: string): Reply | null => {
  const falls =
    (has("500-on-null") && text === "null") ||
    (has("500-on-depth") && text.includes("[".repeat(999))) ||
    (has("500-on-long-heads") && String(req.headers.origin).length > 4096);
  return falls ? { status: 500, text: "Internal Server Error" } : null;
};

/** Whether the key is accepted; if ends arrive late, a key that is over is accepted for a while. */
const isServed = (api: ApiState, key: Key): boolean => {
  const { is, has, firstMintAtMs } = api;
  const late = is("ends-arrive-late") && (firstMintAtMs.get(key.id) ?? performance.now()) > performance.now() - 900;
  if (!firstMintAtMs.has(key.id)) firstMintAtMs.set(key.id, performance.now());
  return key.state === "valid" || late || isOnOtherReplica(api, key) || has(`serves-${key.state}`);
};

const callerOf = (api: ApiState, req: IncomingMessage, product: unknown): Caller | Reply => {
  const { is, detail, unauthenticated } = api;
  if (is("sessions-disabled")) return detail(403, "sessions_disabled");
  const credential = credentialIn(api, req);
  if (credential === null && is("anonymous-viewer") && product === "viewer") {
    return {
      status: 200,
      body: { session_token: `svc_sess_live_${b64({})}.${b64({})}.x`, expires_in: 900, product },
    };
  }
  if (credential === null) return unauthenticated();
  if (is("prefix-first") && !/^svc_pk_/.test(credential) && /^svc_/.test(credential))
    return detail(403, "publishable_key_required");
  const session = sessionIn(api, credential);
  const key = session?.key ?? keyBySecret(api, credential);
  if (key === undefined || !isServed(api, key)) return unauthenticated();
  return { key, of: orgOf(api, key), bySession: session !== null };
};

const lifeS = (api: ApiState, token: string): number | string => {
  const { is, has, mintedAtMs } = api;
  if (has("expires-in-text")) return "900";
  if (has("expires-in-an-hour")) return 3600;
  if (is("float-expiry")) return 899.5;
  if (is("short-sessions")) return 3;
  if (has("reuses-with-a-full-life")) return 900;
  return 900 - Math.ceil((Date.now() - (mintedAtMs.get(token) as number)) / 1000);
};

const styleFields = ({ is, has }: ApiState, of: Org, product: unknown): object => {
  const silent = has("forgets-the-style") || (has("tells-the-style-to-chat-alone") && product !== "chat");
  const standard = has("has-a-style-for-everybody") ? "svc-morning" : undefined;
  const style = silent || is("older-revision") ? undefined : has("tells-another-style") ? "svc-morning" : of.style;
  const styleName = has("renames-the-style") ? "basemapStyleId" : "basemap_style_id";
  return {
    ...(style === undefined
      ? has("null-style") || (has("null-style-for-others") && of.id !== "acme")
        ? { basemap_style_id: null }
        : {}
      : { [styleName]: style }),
    ...(of.style === undefined && standard !== undefined ? { basemap_style_id: standard } : {}),
  };
};

const mintedReply = (api: ApiState, of: Org, { product }: Wish, token: string): Reply => ({
  status: api.is("201-on-mint") ? 201 : 200,
  body: {
    session_token: api.has("token-without-env") ? token.replace("live_", "") : token,
    expires_in: lifeS(api, token),
    product: api.has("echoes-chat") ? "chat" : product,
    ...styleFields(api, of, product),
    ...api.extra,
  },
});

export const exchange = async (api: ApiState, req: IncomingMessage, text: string): Promise<Reply> => {
  const { is, has, reusable, mintedAtMs } = api;
  const fallen = stumble(api, req, text);
  if (fallen !== null) return fallen;
  const wish = wishIn(api, text);
  const caller = callerOf(api, req, wish.product);
  if (!("key" in caller)) return caller;
  const { key, of } = caller;
  const slot = `${key.id} ${wish.product}`;
  const reused = is("reuses-sessions") || has("reuses-with-a-full-life") ? reusable.get(slot) : undefined;
  const shed = is("mints-hold-slots") ? organizationShed(api, countedAs(api, key)) : null;
  if (shed !== null) return shed;
  const giveBack = is("mints-hold-slots") ? takeSlot(api, countedAs(api, key)) : () => {};
  if (is("mints-hold-slots")) await new Promise((resolve) => setTimeout(resolve, 10));
  const refusal = await mintRefusal(api, { ...caller, req, wish, reused });
  giveBack();
  if (refusal !== null) return refusal;
  api.latestToMint = key;
  if (has("mints-for-the-latest")) await new Promise((resolve) => setTimeout(resolve, 2));
  const minting = has("mints-for-the-latest") ? (api.latestToMint ?? key) : key;
  const token = reused ?? mintToken(api, minting, String(wish.product));
  if (reused === undefined) mintedAtMs.set(token, Date.now());
  // Calls that come at the same moment do not share a session.
  setTimeout(() => reusable.set(slot, token), 5);
  return mintedReply(api, of, wish, token);
};
