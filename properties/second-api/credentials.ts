/**
 * Authentication: where the second deployment looks for a credential, which key or session the credential is, how sessions are
 * signed, and whether an Origin is listed. Defects that accept a wrong credential or origin belong here.
 */
import { createHmac, randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { ApiState, Key } from "./state.ts";

export const b64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

export const ownCredentialIn = ({ has }: ApiState, req: IncomingMessage): string | null => {
  const bearer = /^Bearer\s+(\S+)$/i.exec(String(req.headers.authorization ?? ""))?.[1];
  const api = has("ignores-x-api-key") ? undefined : (req.headers["x-api-key"] as string | undefined);
  return bearer ?? api ?? null;
};
export const credentialIn = (api: ApiState, req: IncomingMessage): string | null =>
  api.has("mixes-up-callers") ? api.latest : ownCredentialIn(api, req);

const isSecretOf = ({ is, has }: ApiState, key: Key, text: string): boolean =>
  key.secret === text ||
  ((has("forgets-the-case") || is("hex-keys")) &&
    key.secret === key.secret.slice(0, 7) + text.slice(7).toLowerCase()) ||
  (has("forgets-the-case") && key.secret.toLowerCase() === text.toLowerCase()) ||
  (has("strips-keys") && key.secret === text.replace(/\W/g, ""));

export const keyBySecret = (api: ApiState, text: string): Key | undefined =>
  [...api.keys.values()].find(
    (key) => isSecretOf(api, key, text) && (api.arrivesAtMs.get(key) ?? 0) <= performance.now(),
  );

/** Calls alternate between two replicas, and one of them never learns of a deletion. */
export const isOnOtherReplica = (api: ApiState, key: Key) => api.lingering.has(key.id) && api.turns++ % 2 === 1;

const sign = ({ secret }: ApiState, text: string) => createHmac("sha256", secret).update(text).digest("base64url");

export const mintToken = (api: ApiState, key: Key, product: string): string => {
  const { is, has } = api;
  const nowS = Date.now() / 1000;
  const lifeS = has("mints-for-an-hour") ? 3600 : is("short-sessions") ? 3 : 900;
  const claims = is("opaque-token")
    ? { h: randomBytes(8).toString("hex") }
    : { exp: nowS + (has("ends-tokens-early") ? lifeS / 2 : lifeS) };
  const body = `${b64({ alg: "HS256", typ: "JWT" })}.${b64({ ...claims, k: key.id, p: product, n: api.ids++ })}`;
  const token = `svc_sess_live_${body}.${sign(api, body)}`;
  api.issued.add(token);
  return token;
};

const partsOf = (token: string): string[] => token.replace(/^svc_sess_[^_]*_/, "").split(".");

export const readToken = (api: ApiState, token: string): { key: Key; product: string } | null => {
  const { is, has, keys } = api;
  // This variant keeps a list of issued tokens and parses no others.
  if (is("looks-sessions-up") && !api.issued.has(token)) return null;
  const [head = "", payload = "", signature = ""] = partsOf(token);
  try {
    const { alg } = JSON.parse(Buffer.from(head, "base64url").toString()) as { alg: string };
    const own = sign(api, `${head}.${payload}`);
    const good =
      signature === own ||
      has("any-signature") ||
      (has("alg-none") && alg === "none") ||
      (has("looks-at-the-first-characters") && own.startsWith(signature.slice(0, 8))) ||
      (has("takes-half-a-signature") && own.startsWith(signature || "-"));
    const { k, p, exp } = JSON.parse(Buffer.from(payload, "base64url").toString()) as {
      k: string;
      p: string;
      exp?: number;
    };
    if (has("ends-sessions-early") && p === "editor" && api.editorReads++ >= 3) return null;
    const leewayMs = is("clock-leeway") ? 3_000 : 0;
    if (exp !== undefined && exp * 1000 < Date.now() - leewayMs && !has("never-ends-sessions")) return null;
    const key = keys.get(k);
    return good && key !== undefined ? { key, product: p } : null;
  } catch {
    return null;
  }
};

/** `null`: no valid session of this deployment. */
export const sessionIn = (api: ApiState, credential: string): { key: Key; product: string } | null =>
  credential.startsWith("svc_sess_") ? readToken(api, credential) : null;

/** Whether the token was signed here, even if its session is over. */
export const isOurs = (api: ApiState, token: string): boolean => {
  const [head = "", payload = "", signature = ""] = partsOf(token);
  return token.startsWith("svc_sess_") && signature === sign(api, `${head}.${payload}`);
};

export const isListed = ({ has }: ApiState, key: Key, origin: string): boolean =>
  key.origins.some((listed) =>
    has("matches-by-prefix")
      ? origin.startsWith(listed)
      : has("matches-a-part")
        ? listed.startsWith(origin)
        : has("takes-dots-for-anything")
          ? new RegExp(`^${listed}$`).test(origin)
          : has("matches-by-suffix")
            ? origin.endsWith(new URL(listed).hostname)
            : origin === listed,
  );
