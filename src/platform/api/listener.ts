/** Limits of a connection (item 232): size of a head, times for head, request and handshake; malformed requests. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

export const LISTENER_LIMITS = {
  headBytesMax: 16_384,
  headTimeoutMs: 10_000,
  /** For the whole request to arrive: a body that trickles holds slots no longer than this. */
  requestTimeoutMs: 15_000,
  keepAliveTimeoutMs: 72_000,
};
export type ListenerLimits = typeof LISTENER_LIMITS;

const TIMEOUT_CHECK_MS = 1_000;

export type TlsOptions = { cert: string | Buffer; key: string | Buffer };

/** RFC 9113, 7: the code of an HTTP/2 stream that nobody wants any more. */
const CANCEL = 8;

const STATUS_TEXT: Readonly<Record<number, string>> = {
  400: "Bad Request",
  408: "Request Timeout",
  431: "Request Header Fields Too Large",
};

/** A request that never became one. Where an earlier call on the connection is still running, its answer is not spoilt. */
export const answerBroken = (error: NodeJS.ErrnoException, socket: Socket & { _httpMessage?: unknown }): void => {
  if (socket.destroyed) return;
  if (error.code === "ECONNRESET" || !socket.writable || socket._httpMessage) {
    socket.destroy();
    return;
  }
  const status = error.code === "HPE_HEADER_OVERFLOW" ? 431 : error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400;
  const body = JSON.stringify({ detail: STATUS_TEXT[status] });
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_TEXT[status]}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  );
  // A client that neither reads nor closes is not waited for.
  setTimeout(() => socket.destroy(), 1_000).unref();
};

const HOST = /^[\w.~%!$&'()*+,;=[\]:-]*$/;

/** Accepted by Node, not by RFC 9112: two or odd `Host` (3.2), HTTP/1.0 with chunks (6.1), a version outside HTTP/1. */
const isMalformed = ({ httpVersion, headers, rawHeaders }: IncomingMessage): boolean => {
  // The other hosts of one request are in its raw headers alone. HTTP/2 has `:authority`, and frames in place of lengths.
  if (httpVersion === "2.0" && headers[":authority" as "host"] !== undefined) return false;
  if (httpVersion !== "1.1" && (httpVersion !== "1.0" || headers["transfer-encoding"] !== undefined)) return true;
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) if (/^host$/i.test(rawHeaders[at] as string)) hosts += 1;
  return hosts > 1 || (headers.host !== undefined && !HOST.test(headers.host));
};

/** Answers a malformed request and closes; where it ended is uncertain, so nothing more is read from its connection. */
export const malformedGuard = (): ((request: IncomingMessage, response: ServerResponse) => boolean) => {
  const refused = new WeakSet<Socket>();
  return (request, response) => {
    if (refused.has(request.socket)) return true;
    if (!isMalformed(request)) return false;
    refused.add(request.socket);
    const body = JSON.stringify({ detail: STATUS_TEXT[400] });
    response.shouldKeepAlive = false;
    response
      .writeHead(400, { "content-type": "application/json", "content-length": body.length, connection: "close" })
      .end(body);
    return true;
  };
};

/** Node limits the time of requests over HTTP/1.1 only. */
export const endSlowRequest = (request: IncomingMessage, timeoutMs: number): void => {
  const { stream } = request as unknown as { stream?: { endAfterHeaders: boolean; close(code: number): void } };
  if (stream === undefined || stream.endAfterHeaders) return;
  const timer = setTimeout(() => stream.close(CANCEL), timeoutMs);
  const arrived = (): void => clearTimeout(timer);
  request.once("end", arrived).once("close", arrived);
};

export const listenerOptions = (
  limits: ListenerLimits,
  { tls, http2 }: { tls?: TlsOptions; http2?: boolean },
): Record<string, unknown> => {
  const http = {
    maxHeaderSize: limits.headBytesMax,
    headersTimeout: limits.headTimeoutMs,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    noDelay: true,
    optimizeEmptyRequests: true,
  };
  const https = { ...http, ...tls, handshakeTimeout: limits.headTimeoutMs };
  if (http2 !== true) return tls === undefined ? { http } : { https };
  const settings = { maxHeaderListSize: limits.headBytesMax };
  return {
    http2: true,
    http2SessionTimeout: limits.keepAliveTimeoutMs,
    ...(tls === undefined ? { http: { settings } } : { https: { ...https, settings, allowHTTP1: true } }),
  };
};
