/** Secrets of keys: made from the system's randomness, shown once, and known afterwards by their SHA-256 only. */
import { hash, randomInt, randomUUID } from "node:crypto";
import { createSigner, createVerifier } from "fast-jwt";
import type { KeyRecord } from "../../core/call.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export const base62 = (chars: number): string =>
  Array.from({ length: chars }, () => BASE62.charAt(randomInt(BASE62.length))).join("");

/** `svc_pk_{env}_…` or `svc_sk_{env}_…` (item 51): 32 characters of base 62, 190 bits. */
export const makeSecret = ({ kind, env }: Pick<KeyRecord, "kind" | "env">): string =>
  `${kind === "publishable" ? "svc_pk" : "svc_sk"}_${env}_${base62(32)}`;

export const makeKeyId = (): string => `key_${base62(16)}`;

/** The SHA-256 that is stored and that a lookup sends: 64 hex characters. */
export const hashSecret = (secret: string): string => hash("sha256", secret, "hex");

const ADMIN_ISSUER = "floodgate-identity";
const ADMIN_AUDIENCE = "floodgate-key-management";

type AdminClaims = { iss: string; aud: string; sub: string; org_id: string; role: string; exp: number };

/** Any other role than `org_admin` is refused by key management with 403. */
type AdminWish = { secret: string; org: string; nowMs: number; expiresInS?: number; role?: string };

export const mintAdminToken = ({ secret, org, nowMs, expiresInS = 3_600, role = "org_admin" }: AdminWish): string => {
  const exp = Math.floor(nowMs / 1000) + expiresInS;
  const claims = { iss: ADMIN_ISSUER, aud: ADMIN_AUDIENCE, sub: `admin_${randomUUID()}`, org_id: org, role, exp };
  return createSigner({ key: secret, algorithm: "HS256", noTimestamp: true })(claims satisfies AdminClaims);
};

/** Verifies an admin token and returns its claims, `null` if it is invalid or expired. The caller checks the role. */
export const adminTokenVerifier = (secret: string): ((token: string, nowMs: number) => AdminClaims | null) => {
  const verify = createVerifier({
    key: secret,
    algorithms: ["HS256"],
    allowedIss: ADMIN_ISSUER,
    allowedAud: ADMIN_AUDIENCE,
    requiredClaims: ["iss", "aud", "sub", "org_id", "role", "exp"],
    // Expiry is checked below by the deployment's clock, which can be shifted.
    ignoreExpiration: true,
  });
  return (token, nowMs) => {
    try {
      const claims = verify(token) as AdminClaims;
      const wellFormed = typeof claims.org_id === "string" && typeof claims.role === "string";
      return wellFormed && typeof claims.exp === "number" && claims.exp * 1000 > nowMs ? claims : null;
    } catch {
      return null;
    }
  };
};
