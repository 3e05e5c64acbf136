/** Writes answers (headers as Node takes them: name, value, …), and watches, cuts and closes their connections. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type AnyRefusalName, refusalOf, writeEnvelope } from "../../contract/refusals.ts";
import { type Call, type Refuse, UNAVAILABLE } from "../../core/call.ts";
import { originListed } from "../../core/origin.ts";

export type Answer = { status: number; headers: readonly string[]; body: string };

/** `WWW-Authenticate` of every 401 (item 165): no error parameters. */
const CHALLENGE = 'Bearer realm="map-inference"';

export const jsonHeaders = (body: string): string[] => [
  ...["Content-Type", "application/json", "Content-Length", String(Buffer.byteLength(body))],
];

const render = (refuse: Refuse): Answer => {
  const { status, retryAfterS } = refusalOf(refuse.refuse);
  /** Seconds for `Retry-After`, `null` for none (item 218). */
  const retry = refuse.retryAfterS ?? retryAfterS;
  const body = JSON.stringify(writeEnvelope(refuse.refuse, refuse.quota, refuse.errors));
  const headers = jsonHeaders(body);
  if (retry !== null) headers.push("Retry-After", String(retry));
  if (status === 401) headers.push("WWW-Authenticate", CHALLENGE);
  return { status, headers, body };
};

/** Rendered refusals by name, of those without extra fields. */
const KEPT: { [name in AnyRefusalName]?: Answer } = {};

export const writeRefusal = (refuse: Refuse): Answer => {
  const { refuse: name, quota, errors, retryAfterS } = refuse;
  if ((quota ?? errors ?? retryAfterS) !== undefined) return render(refuse);
  KEPT[name] ??= render(refuse);
  return KEPT[name];
};

export const writeAnswer = (response: ServerResponse, status: number, headers: string[], body: string): void => {
  response.writeHead(status, headers);
  response.end(body);
};

/** `Access-Control-Allow-Origin`: only where the key, once known, lists the origin (items 146, 159; A21). */
export const allowedOrigin = (call: Call): string | null => {
  if (call.lookup === undefined || call.lookup === null || call.lookup === UNAVAILABLE) return null;
  if (call.caller.origin === null || call.kind === "server") return null;
  return originListed(call.lookup.key, call.caller.origin) ? call.caller.origin : null;
};

/** Headers that a browser may read beyond the safelisted ones: without this it could not honour `Retry-After`. */
export const EXPOSED = "Retry-After, X-Request-Id";

/** Ignores the error of a write to a lost connection, because `close` reports the loss. */
const ignore = (): void => {};

/** Calls `left` when the connection is gone, also after a finished answer. Returns the function that stops watching. */
export const watchConnection = (request: IncomingMessage, response: ServerResponse, left: () => void): (() => void) => {
  const { socket } = request;
  if (socket.destroyed) {
    left();
    return ignore;
  }
  response.on("error", ignore);
  if (response.socket !== null) {
    response.on("close", left);
    return ignore;
  }
  // The answer to a pipelined request has no socket before its turn, so it would not emit `close`.
  socket.setMaxListeners(0).on("close", left);
  return () => void socket.off("close", left);
};

/** Error codes that end only an HTTP/2 stream, because its connection serves other calls too (RFC 9113, 7). */
const H2_CODE = { reset: 2, truncate: 8 } as const;

/** Cuts an answer once the last text is written: `truncate` closes the connection, `reset` resets it. */
export const cutConnection = (response: ServerResponse, mode: "truncate" | "reset", lastText: string): void => {
  const { stream } = response as unknown as { stream?: { close(code: number): void } };
  const cut = (): void => {
    if (stream !== undefined) stream.close(H2_CODE[mode]);
    else if (mode === "reset") response.req.socket.resetAndDestroy();
    else response.req.socket.destroySoon();
  };
  if (lastText === "") cut();
  else response.write(lastText, cut);
};

/** Ends the connection once the answer has left, except over HTTP/2, where it serves other calls too. */
export const closeWhenSent = (response: ServerResponse): void => {
  if ((response as unknown as { stream?: unknown }).stream !== undefined) return;
  const { socket } = response.req;
  response.once("finish", () => socket.end());
};
