/** Session tokens, `svc_sess_{env}_{jwt}` (items 20-29): HS256, signed and verified in this process. */
import { createSigner, createVerifier } from "fast-jwt";
import { splitSessionToken } from "../../contract/credentials.ts";
import { PRODUCTS, type Product } from "../../contract/routes.ts";
import type { KeySnapshot, Session } from "../../core/call.ts";

type Mint = { snapshot: KeySnapshot; product: Product; mapId: string | null; id: string; nowS: number };

export const SESSION_ISSUER = "map-inference";

/** Items 23-24, 224: the default lifetime of a session; no more than 1800 s is ever allowed. */
export const SESSION_LIFETIME_S = 900;

/** The claims of a session token (item 27), which is opaque to clients. */
export const sessionClaims = ({ snapshot, product, mapId, id, nowS }: Mint, lifetimeS: number) => ({
  iss: SESSION_ISSUER,
  sub: snapshot.key.id,
  org: snapshot.org.id,
  product,
  scopes: snapshot.key.scopes,
  iat: nowS,
  exp: nowS + lifetimeS,
  jti: id,
  ...(mapId !== null && { map_id: mapId }),
});

type SessionClaims = ReturnType<typeof sessionClaims>;

const readClaims = (payload: Partial<SessionClaims>): Session | null => {
  const { iss, sub, org, product, exp, jti } = payload;
  if (iss !== SESSION_ISSUER || typeof sub !== "string" || typeof org !== "string") return null;
  if (typeof exp !== "number" || typeof jti !== "string" || !PRODUCTS.includes(product as Product)) return null;
  return { keyId: sub, orgId: org, product: product as Product, expiresAtS: exp, id: jti };
};

export const createSessions = (secret: string) => {
  // The environment stands outside the JWT. Its copy in `kid` is signed, so that a changed one is detected.
  const signerOf = (env: string) =>
    createSigner<Record<string, unknown>>({ key: secret, algorithm: "HS256", kid: env });
  const sign = { live: signerOf("live"), test: signerOf("test") };
  // `read` checks the times, by the deployment's clock and without leeway (item 29).
  const verify = createVerifier({
    key: secret,
    algorithms: ["HS256"],
    ignoreExpiration: true,
    ignoreNotBefore: true,
    complete: true,
  });

  return {
    sign: (env: "live" | "test", claims: SessionClaims): string => `svc_sess_${env}_${sign[env](claims)}`,
    /** Verifies a token; `null` if it is forged, misshapen, of another environment or expired. */
    read: (token: string, nowS: number): Session | null => {
      const parts = splitSessionToken(token);
      if (parts === null) return null;
      try {
        const { header, payload } = verify(parts.jwt) as { header: { kid?: unknown }; payload: Partial<SessionClaims> };
        const session = header.kid === parts.env ? readClaims(payload) : null;
        return session !== null && session.expiresAtS > nowS ? session : null;
      } catch {
        return null;
      }
    },
  };
};
