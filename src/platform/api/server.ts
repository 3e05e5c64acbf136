/**
 * The listener of the API. Fastify listens, parses heads and finds routes; from its earliest hook on a call is ours, so a
 * refused one is never parsed and nothing of Fastify's own envelopes can be seen by a client.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type FastifyInstance, type FastifyRequest, fastify } from "fastify";
import { ROUTE_NAMES, type RouteName, routeOf } from "../../contract/routes.ts";
import { type GapRefusalName, outcomeOf } from "../../contract/subcodes.ts";
import { reasonOf } from "./asks.ts";
import { requestIdOf } from "./caller.ts";
import type { ApiContext } from "./context.ts";
import { preflightHeaders } from "./cors.ts";
import { IncomingCall } from "./incoming-call.ts";
import { manageKeys } from "./key-management.ts";
import { openApiDocument } from "./openapi.ts";
import { BODY_MAX_BYTES } from "./request-body.ts";
import { isManagement, WORK } from "./work.ts";

export const BASE_PATH = "/v1";

/** Item 232, and what a slow client may take (slow-loris). */
export type ListenerLimits = {
  headBytesMax: number;
  /** For the head of a request to arrive. */
  headTimeoutMs: number;
  /** For the whole request to arrive: a body that trickles holds slots no longer than this. */
  requestTimeoutMs: number;
  keepAliveTimeoutMs: number;
};

export const LISTENER_LIMITS: ListenerLimits = {
  headBytesMax: 16_384,
  headTimeoutMs: 10_000,
  requestTimeoutMs: 15_000,
  keepAliveTimeoutMs: 72_000,
};

/** How often Node looks for requests past their time limit. */
const TIMEOUT_CHECK_MS = 1_000;

export type TlsOptions = { cert: string | Buffer; key: string | Buffer };

type PathMethods = { pattern: RegExp; methods: string };

/** `GET` answers `HEAD` too; every path answers a preflight. */
const methodsOf = (method: string): string[] => (method === "GET" ? ["GET", "HEAD"] : [method]);

/** Path by path, what `Allow` says (item 18). */
const PATHS: readonly PathMethods[] = (() => {
  const byPath = new Map<string, string[]>();
  for (const name of ROUTE_NAMES) {
    const { path, method } = routeOf(name);
    byPath.set(path, [...(byPath.get(path) ?? []), ...methodsOf(method)]);
  }
  return [...byPath].map(([path, methods]) => ({
    pattern: new RegExp(`^${BASE_PATH}${path.replace(/\{\w+\}/g, "[^/]+")}$`),
    methods: [...methods, "OPTIONS"].join(", "),
  }));
})();

const allowedMethods = (url: string): string | null => {
  // A client may name the whole address (RFC 9112, 3.2.2).
  const path = url.replace(/^https?:\/\/[^/?]+/i, "").split("?", 1)[0] as string;
  return PATHS.find(({ pattern }) => pattern.test(path))?.methods ?? null;
};

/** Headers of every answer to what is no call of a route. */
const sharedHeaders = (context: ApiContext, request: IncomingMessage): string[] => [
  "X-Request-Id",
  requestIdOf(request.headers) ?? context.freshId(),
  "Vary",
  "Origin",
];

const refuseUnrouted = (
  context: ApiContext,
  request: IncomingMessage,
  response: ServerResponse,
  name: GapRefusalName,
  more: readonly string[] = [],
): void => {
  const { status, headers, body } = context.parts.writeRefusal({ refuse: name });
  const shared = sharedHeaders(context, request);
  const counted = context.parts.count(outcomeOf(name), "-");
  if (counted !== null) context.counts.count(shared[1] as string, counted.outcome, counted.org);
  if (context.stopping) response.shouldKeepAlive = false;
  context.parts.writeAnswer(response, status, [...headers, ...more, ...shared], body);
};

/** Item 18: an unknown path, or a known one with another method. `OPTIONS` on a known path is a preflight (item 160). */
const answerUnrouted = (context: ApiContext, request: IncomingMessage, response: ServerResponse): void => {
  const methods = allowedMethods(request.url ?? "/");
  if (methods === null) {
    refuseUnrouted(context, request, response, "not_found");
    return;
  }
  if (request.method !== "OPTIONS") {
    refuseUnrouted(context, request, response, "method_not_allowed", ["Allow", methods]);
    return;
  }
  const asked = request.headers["access-control-request-headers"];
  const headers = preflightHeaders(request.headers.origin, methods, asked === undefined ? undefined : String(asked));
  const [name, requestId] = sharedHeaders(context, request) as [string, string];
  const counted = context.parts.count("204", "-");
  if (counted !== null) context.counts.count(requestId, counted.outcome, counted.org);
  context.parts.writeAnswer(response, 204, [...headers, name, requestId], "");
};

const STATUS_TEXT: Readonly<Record<number, string>> = {
  400: "Bad Request",
  408: "Request Timeout",
  431: "Request Header Fields Too Large",
};

/** A request that never became one. Where an earlier call on the connection is still running, its answer is not spoilt. */
const answerBroken = (error: NodeJS.ErrnoException, socket: Socket & { _httpMessage?: unknown }): void => {
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

export const createServer = (
  context: ApiContext,
  limits: ListenerLimits,
  options: { tls?: TlsOptions; http2?: boolean },
): FastifyInstance => {
  const server = fastify({
    logger: false,
    genReqId: () => "",
    bodyLimit: BODY_MAX_BYTES,
    exposeHeadRoutes: false,
    return503OnClosing: false,
    routerOptions: { maxParamLength: 256 },
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    clientErrorHandler: answerBroken as never,
    frameworkErrors: (_error, request, reply) => {
      refuseUnrouted(context, request.raw as IncomingMessage, reply.raw as ServerResponse, "not_found");
    },
    ...listenerOptions(limits, options),
  }) as unknown as FastifyInstance;

  for (const name of ROUTE_NAMES) addRoute(server, context, name);
  const description = openApiDocument();
  server.get("/openapi.json", (_request, reply) => reply.type("application/json").send(description));
  // Nothing is read of a body on a path that we do not know.
  server.addContentTypeParser("*", (_request, _payload, done) => done(null, undefined));
  server.setNotFoundHandler((request, reply) => {
    answerUnrouted(context, request.raw as IncomingMessage, reply.raw as ServerResponse);
  });
  server.setErrorHandler((error, request, reply) => {
    if (request.routeOptions.url === undefined) {
      answerUnrouted(context, request.raw as IncomingMessage, reply.raw as ServerResponse);
      return;
    }
    context.log.error({ reason: reasonOf(error) }, "a call broke");
    const { status, headers, body } = context.parts.writeRefusal({ refuse: "key_service_unavailable" });
    context.parts.writeAnswer(reply.raw as ServerResponse, status, [...headers], body);
  });
  return server;
};

const listenerOptions = (
  limits: ListenerLimits,
  { tls, http2 }: { tls?: TlsOptions; http2?: boolean },
): Record<string, unknown> => {
  const http = {
    maxHeaderSize: limits.headBytesMax,
    headersTimeout: limits.headTimeoutMs,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    requestTimeout: limits.requestTimeoutMs,
    noDelay: true,
  };
  if (tls === undefined) return http2 === true ? { http2: true } : { http };
  const https = { ...http, ...tls };
  return http2 === true ? { http2: true, https: { ...https, allowHTTP1: true } } : { https };
};

const addRoute = (server: FastifyInstance, context: ApiContext, name: RouteName): void => {
  const { method, path } = routeOf(name);
  const begin = isManagement(name)
    ? (request: FastifyRequest, response: ServerResponse): void => {
        void manageKeys(context, name, request.raw, response, request.params);
      }
    : (request: FastifyRequest, response: ServerResponse): void => {
        new IncomingCall(context, name, WORK[name], request.raw, response, request.query, request.params).go();
      };
  server.route({
    method: methodsOf(method),
    url: BASE_PATH + path.replace(/\{(\w+)\}/g, ":$1"),
    // The hook never says that it is done: the call is ours from here on.
    onRequest: (request, reply, _done) => begin(request, reply.raw),
    handler: () => {
      throw new Error("unreachable: calls are taken over in the first hook");
    },
  });
};
