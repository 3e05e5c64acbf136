/**
 * `POST /sdk/sessions`: who asks, whether it is admitted (`exchange-checks.ts`), and how a minted session is reported. A defect
 * of the 401 or of the answer to a good exchange belongs here.
 */
import type { IncomingMessage } from "node:http";
import { b64, credentialIn, isOnOtherReplica, keyBySecret, mintToken, sessionIn } from "./credentials.ts";
import { type Caller, mintRefusal, type Wish, wishIn } from "./exchange-checks.ts";
import { countedAs, organizationShed, takeSlot } from "./limits.ts";
import type { Reply } from "./replies.ts";
import { type ApiState, type Key, type Org, orgOf } from "./state.ts";

const stumble = ({ has }: ApiState, req: IncomingMessage, text: string): Reply | null => {
  const falls =
    (has("500-on-null") && text === "null") ||
    (has("500-on-depth") && text.includes("[".repeat(999))) ||
    (has("500-on-long-heads") && String(req.headers.origin).length > 4096);
  return falls ? { status: 500, text: "Internal Server Error" } : null;
};

/** A key that is over is known for a while still where ends arrive late. */
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
    ...(style === undefined ? (has("null-style") ? { basemap_style_id: null } : {}) : { [styleName]: style }),
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
  const token = reused ?? mintToken(api, key, String(wish.product));
  if (reused === undefined) mintedAtMs.set(token, Date.now());
  // What came at the same moment does not know of each other.
  setTimeout(() => reusable.set(slot, token), 5);
  return mintedReply(api, of, wish, token);
};
