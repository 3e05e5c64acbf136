/**
 * The listener of the API. Fastify listens and finds the routes that the front door has not found; from its earliest hook on a
 * call is ours, so a refused one is never parsed and nothing of Fastify's own envelopes can be seen by a client.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type FastifyInstance, type FastifyRequest, fastify } from "fastify";
import { ROUTE_NAMES, type RouteName, routeOf } from "../../contract/routes.ts";
import { reasonOf } from "../reason-of.ts";
import type { ApiContext } from "./context.ts";
import { type Begin, putDoorBefore } from "./front-door.ts";
import { IncomingCall } from "./incoming-call.ts";
import { answerBroken, type ListenerLimits, limitHttp2Requests, listenerOptions, type TlsOptions } from "./listener.ts";
import { openApiDocument } from "./openapi/openapi.ts";
import { BODY_MAX_BYTES } from "./request-body.ts";
import { manageKeys } from "./routes/key-management.ts";
import { isManagement, WORK } from "./routes/work.ts";
import { answerUnrouted, BASE_PATH, methodsOf, refuseUnrouted } from "./unrouted.ts";

const NO_FIELDS = Object.freeze({});

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

  putDoorBefore(
    server.server,
    (name) => beginAtDoor(context, name),
    (error, response) => answerFault(context, error, response),
  );
  if (options.http2 === true) limitHttp2Requests(server.server, limits);
  for (const name of ROUTE_NAMES) addRoute(server, context, name);
  const description = openApiDocument();
  server.get("/openapi.json", (_request, reply) => reply.type("application/json").send(description));
  // Nothing is read of a body on a path that we do not know.
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", (_request, _payload, done) => done(null, undefined));
  server.setNotFoundHandler((request, reply) => {
    answerUnrouted(context, request.raw as IncomingMessage, reply.raw as ServerResponse);
  });
  server.setErrorHandler((error, request, reply) => {
    if (request.routeOptions.url === undefined) {
      answerUnrouted(context, request.raw as IncomingMessage, reply.raw as ServerResponse);
      return;
    }
    answerFault(context, error, reply.raw as ServerResponse);
  });
  return server;
};

/** A fault of ours before a call could answer for itself. */
const answerFault = (context: ApiContext, error: unknown, response: ServerResponse): void => {
  context.log.error({ reason: reasonOf(error) }, "a call broke");
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status, headers, body } = context.parts.writeRefusal({ refuse: "key_service_unavailable" });
  context.parts.writeAnswer(response, status, [...headers], body);
};

/** For a path without fields, asked without a query. */
const beginAtDoor = (context: ApiContext, name: RouteName): Begin | null => {
  if (isManagement(name)) return null;
  const work = WORK[name];
  return (request, response) => new IncomingCall(context, name, work, request, response, NO_FIELDS, NO_FIELDS).go();
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
