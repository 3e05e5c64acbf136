/**
 * Cross-origin answers (items 146, 159-160; A21). A preflight carries no key, so it is let through for any origin; the answer
 * itself names the origin only when it stands in the key's allowlist, so that a blocked real request means exactly that.
 */
import { type Call, UNAVAILABLE } from "../../core/call.ts";
import { originListed } from "../../core/origin.ts";

/** The value of `Access-Control-Allow-Origin`, `null` for none. Nothing is said for a key that is not known (yet). */
export const allowedOrigin = (call: Call): string | null => {
  // Looked at first, because a shed call has not even read its head.
  if (call.lookup === undefined || call.lookup === null || call.lookup === UNAVAILABLE) return null;
  if (call.origin === null) return null;
  if (call.kind === "server") return null;
  return originListed(call.lookup.key, call.origin) ? call.origin : null;
};

/** Headers that a browser may read beyond the safelisted ones: without this it could not honour `Retry-After`. */
export const EXPOSED = "Retry-After, X-Request-Id";

/** Headers of a preflight's answer. */
export const preflightHeaders = (
  origin: string | undefined,
  methods: string,
  requestedHeaders: string | undefined,
): string[] => {
  const headers = ["Vary", "Origin, Access-Control-Request-Headers", "Allow", methods];
  if (origin !== undefined) {
    headers.push("Access-Control-Allow-Origin", origin, "Access-Control-Allow-Methods", methods);
    headers.push("Access-Control-Max-Age", "600");
    if (requestedHeaders !== undefined) headers.push("Access-Control-Allow-Headers", requestedHeaders);
  }
  return headers;
};
