/** Who sent a request, and the log. A repeated header is joined, and so invalid (items 19, 22, 56, 143-144). */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { type DestinationStream, destination, type Logger, pino } from "pino";
import { maskCredential } from "../../contract/credentials.ts";
import { inBlock } from "../../core/origin.ts";

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
export const credentialsConflict = (headers: IncomingHttpHeaders): boolean =>
  headers.authorization !== undefined &&
  headers["x-api-key"] !== undefined &&
  credentialOf(headers) !== headers["x-api-key"];

/** What a client may send as `X-Request-Id`: visible ASCII, at most 200 characters; anything else is replaced. */
const REQUEST_ID = /^[\x21-\x2b\x2d-\x7e]{1,200}$/;

export const requestIdOf = (headers: IncomingHttpHeaders): string | null => {
  const given = headers["x-request-id"] as string | undefined;
  return given !== undefined && REQUEST_ID.test(given) ? given : null;
};

/** The socket's address; behind trusted proxies the last untrusted address in `X-Forwarded-For` (item 56). */
export const addressOf = ({ headers, socket }: IncomingMessage, trustedProxies: readonly string[]): string => {
  const socketAddress = socket.remoteAddress ?? "";
  if (trustedProxies.length === 0) return socketAddress;
  const trusted = (address: string): boolean => trustedProxies.some((block) => inBlock(address, block));
  const forwarded = headers["x-forwarded-for"];
  if (forwarded === undefined || !trusted(socketAddress)) return socketAddress;
  const hops = (Array.isArray(forwarded) ? forwarded.join(",") : forwarded).split(",").map((hop) => hop.trim());
  for (const hop of hops.reverse()) if (!trusted(hop)) return hop;
  return socketAddress;
};

/** The log entry of a call. The credential is masked; of the client's texts, only the request id is logged. */
export type CallEntry = {
  requestId: string;
  route: string;
  org: string;
  outcome: string;
  durationMs: number;
  credential: string | null;
};

/** A shorter credential is not shown at all, because prefix and four characters would be most of it. */
const MASKED_FROM_CHARS = 20;
const maskOf = (credential: string) => (credential.length < MASKED_FROM_CHARS ? "..." : maskCredential(credential));

export const requestLogFields = ({ credential, durationMs, ...entry }: CallEntry): Record<string, unknown> => ({
  ...entry,
  durationMs: Math.round(durationMs * 100) / 100,
  credential: credential === null ? null : maskOf(credential),
});

export type LogLevel = "silent" | "error" | "warn" | "info" | "debug";

/** JSON lines on standard error: calls at `debug`, what happens to the deployment at `info`. */
export const createLog = (level: LogLevel, to?: DestinationStream): Logger =>
  pino({ level, base: null }, to ?? destination({ dest: 2, sync: true }));
