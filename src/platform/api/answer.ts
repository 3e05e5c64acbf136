/** How an answer leaves: status, headers as a flat list (name, value, …: what Node writes without sorting), body. */
import type { ServerResponse } from "node:http";
import { writeEnvelope } from "../../contract/envelopes.ts";
import { refusalOf } from "../../contract/refusals.ts";
import { type Call, type Refuse, UNAVAILABLE } from "../../core/call.ts";
import { originListed } from "../../core/origin.ts";

export type Answer = { status: number; headers: readonly string[]; body: string };

/** `WWW-Authenticate` of every 401 (item 165): no error parameters. */
const CHALLENGE = 'Bearer realm="map-inference"';

export const jsonHeaders = (body: string): string[] => [
  "Content-Type",
  "application/json",
  "Content-Length",
  String(Buffer.byteLength(body)),
];

const render = (refuse: Refuse): Answer => {
  const { status, retryAfterS } = refusalOf(refuse.refuse);
  /** Seconds, `null` for none (item 218). */
  const retry = refuse.retryAfterS ?? retryAfterS;
  const body = JSON.stringify(writeEnvelope(refuse.refuse, refuse.quota, refuse.errors));
  const headers = jsonHeaders(body);
  if (retry !== null) headers.push("Retry-After", String(retry));
  if (status === 401) headers.push("WWW-Authenticate", CHALLENGE);
  return { status, headers, body };
};

/** Refusals by name that have no fields of their own. */
const KEPT = new Map<string, Answer>();

export const writeRefusal = (refuse: Refuse): Answer => {
  const { refuse: name, quota, errors, retryAfterS } = refuse;
  if (quota !== undefined || errors !== undefined || retryAfterS !== undefined) return render(refuse);
  const kept = KEPT.get(name);
  if (kept !== undefined) return kept;
  const made = render(refuse);
  KEPT.set(name, made);
  return made;
};

export const writeAnswer = (response: ServerResponse, status: number, headers: string[], body: string): void => {
  response.writeHead(status, headers);
  response.end(body);
};

/**
 * `Access-Control-Allow-Origin` (items 146, 159-160; A21), `null` for none. A preflight carries no key, so any origin
 * passes; the answer itself names the origin only when the key, once known, lists it.
 */
export const allowedOrigin = (call: Call): string | null => {
  if (call.lookup === undefined || call.lookup === null || call.lookup === UNAVAILABLE) return null;
  if (call.origin === null) return null;
  if (call.kind === "server") return null;
  return originListed(call.lookup.key, call.origin) ? call.origin : null;
};

/** Headers that a browser may read beyond the safelisted ones: without this it could not honour `Retry-After`. */
export const EXPOSED = "Retry-After, X-Request-Id";

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
