/**
 * Tokens of an organization's admin (items 125, 127). In production an identity provider signs them; the reference platform
 * is its own, with one shared secret, so that key management can be called at all.
 */
import { randomUUID } from "node:crypto";
import { createSigner, createVerifier } from "fast-jwt";

const ADMIN_ISSUER = "floodgate-identity";
const ADMIN_AUDIENCE = "floodgate-key-management";
const ADMIN_ROLE = "org_admin";
const DEFAULT_LIFETIME_S = 3_600;

export type AdminClaims = { iss: string; aud: string; sub: string; org_id: string; role: string; exp: number };

export const mintAdminToken = (options: {
  secret: string;
  org: string;
  nowMs: number;
  expiresInS?: number;
  /** Any other role is refused by key management with 403. */
  role?: string;
}): string => {
  const sign = createSigner({ key: options.secret, algorithm: "HS256", noTimestamp: true });
  const claims: AdminClaims = {
    iss: ADMIN_ISSUER,
    aud: ADMIN_AUDIENCE,
    sub: `admin_${randomUUID()}`,
    org_id: options.org,
    role: options.role ?? ADMIN_ROLE,
    exp: Math.floor(options.nowMs / 1000) + (options.expiresInS ?? DEFAULT_LIFETIME_S),
  };
  return sign(claims);
};

/** Claims of a good token whose role is for the caller to judge; `null` for a token that is missing something or too old. */
export const adminTokenVerifier = (secret: string): ((token: string, nowMs: number) => AdminClaims | null) => {
  const verify = createVerifier({
    key: secret,
    algorithms: ["HS256"],
    allowedIss: ADMIN_ISSUER,
    allowedAud: ADMIN_AUDIENCE,
    requiredClaims: ["iss", "aud", "sub", "org_id", "role", "exp"],
    // The deployment's clock can be shifted, so the library's own is not asked.
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
