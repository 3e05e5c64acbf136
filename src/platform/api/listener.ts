/** Limits of a connection (item 232): size of a head, times for head, request and handshake; malformed requests. */
import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance } from "fastify";

export const LISTENER_LIMITS = {
  headBytesMax: 16_384,
  headTimeoutMs: 10_000,
  /** The time for a whole request to arrive, so that a slowly sent body holds slots no longer than this. */
  requestTimeoutMs: 15_000,
  keepAliveTimeoutMs: 72_000,
};
export type ListenerLimits = typeof LISTENER_LIMITS;

const TIMEOUT_CHECK_MS = 1_000;

export type TlsOptions = { cert: string | Buffer; key: string | Buffer };

/** RFC 9113, 7: the code of an HTTP/2 stream that is no longer needed. */
const CANCEL = 8;

/** Answers a request that Node cannot parse. Only closes the connection if an earlier answer on it is not complete. */
const answerBroken = (error: NodeJS.ErrnoException, socket: Socket & { _httpMessage?: unknown }): void => {
  if (socket.destroyed) return;
  if (error.code === "ECONNRESET" || !socket.writable || socket._httpMessage) return void socket.destroy();
  const status = error.code === "HPE_HEADER_OVERFLOW" ? 431 : error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400;
  const body = JSON.stringify({ detail: STATUS_CODES[status] });
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  );
  // Closes the connection even if the client neither reads nor closes.
  setTimeout(() => socket.destroy(), 1_000).unref();
};

const HOST = /^[\w.~%!$&'()*+,;=[\]:-]*$/;

/** Finds what only Node accepts (RFC 9112): two or odd `Host` (3.2), HTTP/1.0 with chunks (6.1), unknown versions. */
const isMalformed = ({ httpVersion, headers, rawHeaders }: IncomingMessage): boolean => {
  // HTTP/2 has `:authority` instead of `Host`, and no chunks. Only the raw headers show a second `Host`.
  if (httpVersion === "2.0" && headers[":authority" as "host"] !== undefined) return false;
  if (httpVersion !== "1.1" && (httpVersion !== "1.0" || headers["transfer-encoding"] !== undefined)) return true;
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) if (/^host$/i.test(rawHeaders[at] as string)) hosts += 1;
  return hosts > 1 || (headers.host !== undefined && !HOST.test(headers.host));
};

/** Ends an HTTP/2 request that takes too long to arrive; Node limits the time of HTTP/1.1 requests only. */
const endSlowRequest = (request: IncomingMessage, timeoutMs: number): void => {
  const { stream } = request as unknown as { stream?: { endAfterHeaders: boolean; close(code: number): void } };
  if (stream === undefined || stream.endAfterHeaders) return;
  const timer = setTimeout(() => stream.close(CANCEL), timeoutMs);
  const arrived = (): void => clearTimeout(timer);
  request.once("end", arrived).once("close", arrived);
};

/** Adds the first hook: answers a malformed request and ignores the rest of its connection, as its end is unknown. */
export const guardRequests = (server: FastifyInstance, limits: ListenerLimits, isHttp2: boolean): void => {
  if (isHttp2) server.server.on("request", (request) => endSlowRequest(request, limits.requestTimeoutMs));
  const refused = new WeakSet<Socket>();
  server.addHook("onRequest", ({ raw: request }, { raw: response }, done) => {
    if (refused.has(request.socket)) return;
    if (!isMalformed(request)) return done();
    refused.add(request.socket);
    const body = JSON.stringify({ detail: STATUS_CODES[400] });
    const headers = { "content-type": "application/json", "content-length": body.length, connection: "close" };
    response.shouldKeepAlive = false;
    response.writeHead(400, headers).end(body);
  });
};

export const listenerOptions = (
  limits: ListenerLimits,
  { tls, http2 }: { tls?: TlsOptions; http2?: boolean },
): Record<string, unknown> => {
  const {
    requestTimeoutMs: requestTimeout,
    keepAliveTimeoutMs: keepAliveTimeout,
    headTimeoutMs,
    headBytesMax,
  } = limits;
  const shared = { requestTimeout, keepAliveTimeout, clientErrorHandler: answerBroken };
  const http = {
    ...{ requestTimeout, keepAliveTimeout, headersTimeout: headTimeoutMs, maxHeaderSize: headBytesMax },
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    noDelay: true,
    optimizeEmptyRequests: true,
  };
  const https = { ...http, ...tls, handshakeTimeout: headTimeoutMs };
  if (http2 !== true) return { ...shared, ...(tls === undefined ? { http } : { https }) };
  const settings = { maxHeaderListSize: headBytesMax };
  return {
    ...{ ...shared, http2: true, http2SessionTimeout: keepAliveTimeout },
    ...(tls === undefined ? { http: { settings } } : { https: { ...https, settings, allowHTTP1: true } }),
  };
};
