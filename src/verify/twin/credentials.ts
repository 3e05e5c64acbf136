/**
 * Who calls: where the second deployment looks for a credential, which key or session it takes it for, how it signs sessions,
 * and whether an Origin is listed. A defect of taking the wrong thing for good belongs here.
 */
import { createHmac, randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Key, World } from "./world.ts";

export const b64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

export const ownCredentialIn = ({ has }: World, req: IncomingMessage): string | null => {
  const bearer = /^Bearer\s+(\S+)$/i.exec(String(req.headers.authorization ?? ""))?.[1];
  const api = has("ignores-x-api-key") ? undefined : (req.headers["x-api-key"] as string | undefined);
  return bearer ?? api ?? null;
};
export const credentialIn = (world: World, req: IncomingMessage): string | null =>
  world.has("mixes-up-callers") ? world.latest : ownCredentialIn(world, req);

const isSecretOf = ({ is, has }: World, key: Key, text: string): boolean =>
  key.secret === text ||
  ((has("forgets-the-case") || is("hex-keys")) &&
    key.secret === key.secret.slice(0, 7) + text.slice(7).toLowerCase()) ||
  (has("forgets-the-case") && key.secret.toLowerCase() === text.toLowerCase()) ||
  (has("strips-keys") && key.secret === text.replace(/\W/g, ""));

export const keyBySecret = (world: World, text: string): Key | undefined =>
  [...world.keys.values()].find(
    (key) => isSecretOf(world, key, text) && (world.arrivesAtMs.get(key) ?? 0) <= performance.now(),
  );

/** Calls go to two replicas in turn, of which one never hears of a deletion. */
export const isOnOtherReplica = (world: World, key: Key): boolean =>
  world.lingering.has(key.id) && world.turns++ % 2 === 1;

const sign = ({ secret }: World, text: string): string => createHmac("sha256", secret).update(text).digest("base64url");

export const mintToken = (world: World, key: Key, product: string): string => {
  const { is, has } = world;
  const nowS = Date.now() / 1000;
  const lifeS = has("mints-for-an-hour") ? 3600 : is("short-sessions") ? 3 : 900;
  const claims = is("opaque-token") ? { h: randomBytes(8).toString("hex") } : { exp: nowS + lifeS };
  const body = `${b64({ alg: "HS256", typ: "JWT" })}.${b64({ ...claims, k: key.id, p: product, n: world.ids++ })}`;
  return `svc_sess_live_${body}.${sign(world, body)}`;
};

const partsOf = (token: string): string[] => token.replace(/^svc_sess_[^_]*_/, "").split(".");

export const readToken = (world: World, token: string): { key: Key; product: string } | null => {
  const { is, has, keys } = world;
  const [head = "", payload = "", signature = ""] = partsOf(token);
  try {
    const { alg } = JSON.parse(Buffer.from(head, "base64url").toString()) as { alg: string };
    const own = sign(world, `${head}.${payload}`);
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
    if (has("ends-sessions-early") && p === "editor" && world.editorReads++ >= 3) return null;
    const leewayMs = is("clock-leeway") ? 3_000 : 0;
    if (exp !== undefined && exp * 1000 < Date.now() - leewayMs && !has("never-ends-sessions")) return null;
    const key = keys.get(k);
    return good && key !== undefined ? { key, product: p } : null;
  } catch {
    return null;
  }
};

/** `null`: no session of ours that lasts. */
export const sessionIn = (world: World, credential: string): { key: Key; product: string } | null =>
  credential.startsWith("svc_sess_") ? readToken(world, credential) : null;

/** A session of ours that cannot be read any more: it is over. */
export const isOurs = (world: World, token: string): boolean => {
  const [head = "", payload = "", signature = ""] = partsOf(token);
  return token.startsWith("svc_sess_") && signature === sign(world, `${head}.${payload}`);
};

export const isListed = ({ has }: World, key: Key, origin: string): boolean =>
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
