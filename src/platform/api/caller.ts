/** Credential, address and id of a request (items 19, 22, 56, 143-144). A repeated header is joined, and so invalid. */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Caller } from "../../core/call.ts";
import { inBlock } from "../../core/origin.ts";
import type { ApiContext } from "./context.ts";

const BEARER = /^bearer +(\S.*)$/i;

/** `Authorization` wins over `X-Api-Key` (item 144); a scheme other than Bearer makes an unknown credential. */
export const credentialOf = (headers: IncomingHttpHeaders): string | null => {
  const { authorization } = headers;
  if (authorization !== undefined && authorization !== "") {
    if (authorization.startsWith("Bearer ")) return authorization.slice(7).trim();
    return BEARER.exec(authorization)?.[1]?.trim() ?? authorization;
  }
  const apiKey = headers["x-api-key"] as string | undefined;
  return apiKey === undefined || apiKey === "" ? null : apiKey;
};

/** Reports whether both headers came and name different credentials, which is counted (item 144). */
const credentialsConflict = (headers: IncomingHttpHeaders): boolean =>
  headers.authorization !== undefined &&
  headers["x-api-key"] !== undefined &&
  credentialOf(headers) !== headers["x-api-key"];

/** What a client may send as `X-Request-Id`: visible ASCII, at most 200 characters; anything else is replaced. */
const REQUEST_ID = /^[\x21-\x2b\x2d-\x7e]{1,200}$/;

export const requestIdOf = (headers: IncomingHttpHeaders): string | null => {
  const given = headers["x-request-id"] as string | undefined;
  return given !== undefined && REQUEST_ID.test(given) ? given : null;
};

/**
 * The socket's address; behind trusted proxies the last untrusted address in `X-Forwarded-For` (item 56).
 */
const addressOf = (socketAddress: string, headers: IncomingHttpHeaders, trustedProxies: readonly string[]): string => {
  if (trustedProxies.length === 0) return socketAddress;
  const trusted = (address: string): boolean => trustedProxies.some((block) => inBlock(address, block));
  const forwarded = headers["x-forwarded-for"];
  if (forwarded === undefined || !trusted(socketAddress)) return socketAddress;
  const hops = (Array.isArray(forwarded) ? forwarded.join(",") : forwarded).split(",").map((hop) => hop.trim());
  for (const hop of hops.reverse()) if (!trusted(hop)) return hop;
  return socketAddress;
};

export const readCaller = (context: ApiContext, { headers, socket }: IncomingMessage): Caller => {
  if (credentialsConflict(headers)) context.credentialConflicts += 1;
  return {
    credential: credentialOf(headers),
    origin: (headers.origin as string | undefined) ?? null,
    address: addressOf(socket.remoteAddress ?? "", headers, context.trustedProxies),
  };
};
