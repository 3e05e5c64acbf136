/**
 * `POST /sdk/sessions`: who asks, whether it is admitted (`exchange-checks.ts`), and how a minted session is reported. A defect
 * of the 401 or of the answer to a good exchange belongs here.
 */
import type { IncomingMessage } from "node:http";
import { b64, credentialIn, isOnOtherReplica, keyBySecret, mintToken, sessionIn } from "./credentials.ts";
import { type Caller, mintRefusal, type Wish, wishIn } from "./exchange-checks.ts";
import { countedAs, organizationShed, takeSlot } from "./limits.ts";
import type { Reply } from "./replies.ts";
import { type Key, type Org, orgOf, type TwinState } from "./state.ts";

const stumble = ({ has }: TwinState, req: IncomingMessage, text: string): Reply | null => {
  const falls =
    (has("500-on-null") && text === "null") ||
    (has("500-on-depth") && text.includes("[".repeat(999))) ||
    (has("500-on-long-heads") && String(req.headers.origin).length > 4096);
  return falls ? { status: 500, text: "Internal Server Error" } : null;
};

/** A key that is over is known for a while still where ends arrive late. */
const isServed = (twin: TwinState, key: Key): boolean => {
  const { is, has, firstMintAtMs } = twin;
  const late = is("ends-arrive-late") && (firstMintAtMs.get(key.id) ?? performance.now()) > performance.now() - 900;
  if (!firstMintAtMs.has(key.id)) firstMintAtMs.set(key.id, performance.now());
  return key.state === "valid" || late || isOnOtherReplica(twin, key) || has(`serves-${key.state}`);
};

const callerOf = (twin: TwinState, req: IncomingMessage, product: unknown): Caller | Reply => {
  const { is, detail, unauthenticated } = twin;
  if (is("sessions-disabled")) return detail(403, "sessions_disabled");
  const credential = credentialIn(twin, req);
  if (credential === null && is("anonymous-viewer") && product === "viewer") {
    return {
      status: 200,
      body: { session_token: `svc_sess_live_${b64({})}.${b64({})}.x`, expires_in: 900, product },
    };
  }
  if (credential === null) return unauthenticated();
  if (is("prefix-first") && !/^svc_pk_/.test(credential) && /^svc_/.test(credential))
    return detail(403, "publishable_key_required");
  const session = sessionIn(twin, credential);
  const key = session?.key ?? keyBySecret(twin, credential);
  if (key === undefined || !isServed(twin, key)) return unauthenticated();
  return { key, of: orgOf(twin, key), bySession: session !== null };
};

const lifeS = (twin: TwinState, token: string): number | string => {
  const { is, has, mintedAtMs } = twin;
  if (has("expires-in-text")) return "900";
  if (has("expires-in-an-hour")) return 3600;
  if (is("float-expiry")) return 899.5;
  if (is("short-sessions")) return 3;
  if (has("reuses-with-a-full-life")) return 900;
  return 900 - Math.ceil((Date.now() - (mintedAtMs.get(token) as number)) / 1000);
};

const styleFields = ({ is, has }: TwinState, of: Org, product: unknown): object => {
  const silent = has("forgets-the-style") || (has("tells-the-style-to-chat-alone") && product !== "chat");
  const standard = has("has-a-style-for-everybody") ? "svc-morning" : undefined;
  const style = silent || is("older-revision") ? undefined : has("tells-another-style") ? "svc-morning" : of.style;
  const styleName = has("renames-the-style") ? "basemapStyleId" : "basemap_style_id";
  return {
    ...(style === undefined ? (has("null-style") ? { basemap_style_id: null } : {}) : { [styleName]: style }),
    ...(of.style === undefined && standard !== undefined ? { basemap_style_id: standard } : {}),
  };
};

const mintedReply = (twin: TwinState, of: Org, { product }: Wish, token: string): Reply => ({
  status: twin.is("201-on-mint") ? 201 : 200,
  body: {
    session_token: twin.has("token-without-env") ? token.replace("live_", "") : token,
    expires_in: lifeS(twin, token),
    product: twin.has("echoes-chat") ? "chat" : product,
    ...styleFields(twin, of, product),
    ...twin.extra,
  },
});

export const exchange = async (twin: TwinState, req: IncomingMessage, text: string): Promise<Reply> => {
  const { is, has, reusable, mintedAtMs } = twin;
  const fallen = stumble(twin, req, text);
  if (fallen !== null) return fallen;
  const wish = wishIn(twin, text);
  const caller = callerOf(twin, req, wish.product);
  if (!("key" in caller)) return caller;
  const { key, of } = caller;
  const slot = `${key.id} ${wish.product}`;
  const reused = is("reuses-sessions") || has("reuses-with-a-full-life") ? reusable.get(slot) : undefined;
  const shed = is("mints-hold-slots") ? organizationShed(twin, countedAs(twin, key)) : null;
  if (shed !== null) return shed;
  const giveBack = is("mints-hold-slots") ? takeSlot(twin, countedAs(twin, key)) : () => {};
  if (is("mints-hold-slots")) await new Promise((resolve) => setTimeout(resolve, 10));
  const refusal = await mintRefusal(twin, { ...caller, req, wish, reused });
  giveBack();
  if (refusal !== null) return refusal;
  const token = reused ?? mintToken(twin, key, String(wish.product));
  if (reused === undefined) mintedAtMs.set(token, Date.now());
  // What came at the same moment does not know of each other.
  setTimeout(() => reusable.set(slot, token), 5);
  return mintedReply(twin, of, wish, token);
};
