/**
 * The checks of the exchange, each alone, and the order in which they are tried. A defect that lets somebody mint who may not,
 * that refuses for the wrong reason or in the wrong order belongs here.
 */
import type { IncomingMessage } from "node:http";
import { memberRefusal, productRead } from "./bodies.ts";
import { isListed } from "./credentials.ts";
import { isRateLimited, rateReply } from "./limits.ts";
import { charge } from "./map-loads.ts";
import { FREE_PRODUCTS, SCOPE_OF } from "./offer.ts";
import type { Reply } from "./replies.ts";
import type { ApiState, Key, Org } from "./state.ts";

/** The body of an exchange as it was read. */
export type Wish = { members: Readonly<Record<string, unknown>>; isBroken: boolean; product: unknown };
export type Caller = { key: Key; of: Org; bySession: boolean };
/** `reused`: the session that is given out again, if one is. */
type Attempt = Caller & { req: IncomingMessage; wish: Wish; reused: string | undefined };

type Check = (api: ApiState, attempt: Attempt) => Reply | null | Promise<Reply | null>;

export const wishIn = (api: ApiState, text: string): Wish => {
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
export const mintRefusal = async (api: ApiState, attempt: Attempt): Promise<Reply | null> => {
  for (const check of orderOf(api)) {
    const refusal = await check(api, attempt);
    if (refusal !== null) return refusal;
  }
  return null;
};
