/**
 * How an answer leaves: status, headers as a flat list (name, value, name, value: what Node writes without sorting), body.
 * Refusals are rendered once and kept, because a shed call must cost next to nothing.
 */
import type { ServerResponse } from "node:http";
import { writeEnvelope } from "../../contract/envelopes.ts";
import { refusalOf } from "../../contract/refusals.ts";
import type { Refuse } from "../../core/call.ts";

export type Answer = { status: number; headers: readonly string[]; body: string };

/** `WWW-Authenticate` of every 401 (item 165): no error parameters. */
const CHALLENGE = 'Bearer realm="map-inference"';

export const jsonHeaders = (body: string): string[] => [
  "Content-Type",
  "application/json",
  "Content-Length",
  String(Buffer.byteLength(body)),
];

/** Seconds for `Retry-After`, `null` for none (item 218). */
const retryAfterS = (refuse: Refuse): number | null => refuse.retryAfterS ?? refusalOf(refuse.refuse).retryAfterS;

const render = (refuse: Refuse, retry: number | null): Answer => {
  const { status } = refusalOf(refuse.refuse);
  const body = JSON.stringify(writeEnvelope(refuse.refuse, refuse.quota, refuse.errors));
  const headers = jsonHeaders(body);
  if (retry !== null) headers.push("Retry-After", String(retry));
  if (status === 401) headers.push("WWW-Authenticate", CHALLENGE);
  return { status, headers, body };
};

/** Refusals by name that have no fields of their own. */
const KEPT = new Map<string, Answer>();

/** The body and the headers of a refusal, from the one catalogue of the contract. */
export const writeRefusal = (refuse: Refuse): Answer => {
  if (refuse.quota !== undefined || refuse.errors !== undefined || refuse.retryAfterS !== undefined) {
    return render(refuse, retryAfterS(refuse));
  }
  const kept = KEPT.get(refuse.refuse);
  if (kept !== undefined) return kept;
  const made = render(refuse, retryAfterS(refuse));
  KEPT.set(refuse.refuse, made);
  return made;
};

/** By the headers of `jsonHeaders`: as many bytes as characters. */
const isAscii = (headers: readonly string[], body: string): boolean =>
  headers[2] === "Content-Length" && headers[3] === String(body.length);

/**
 * Writes head and body at once. `HEAD` is answered without the body by Node. ASCII is the same bytes in both encodings, and as
 * Latin-1 it need not be looked through for characters of several bytes.
 */
export const writeAnswer = (response: ServerResponse, status: number, headers: string[], body: string): void => {
  response.writeHead(status, headers);
  response.end(body, isAscii(headers, body) ? "latin1" : "utf8");
};
