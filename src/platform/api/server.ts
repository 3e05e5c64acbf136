/**
 * The listener of the API. Fastify listens, parses heads and finds routes; from its earliest hook on a call is ours, so a
 * refused one is never parsed and nothing of Fastify's own envelopes can be seen by a client.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type FastifyInstance, type FastifyRequest, fastify } from "fastify";
import { ROUTE_NAMES, type RouteName, routeOf } from "../../contract/routes.ts";
import { reasonOf } from "../reason-of.ts";
import type { ApiContext } from "./context.ts";
import { IncomingCall } from "./incoming-call.ts";
import { manageKeys } from "./key-management.ts";
import { answerBroken, type ListenerLimits, limitHttp2Requests, listenerOptions, type TlsOptions } from "./listener.ts";
import { openApiDocument } from "./openapi.ts";
import { BODY_MAX_BYTES } from "./request-body.ts";
import { answerUnrouted, BASE_PATH, methodsOf, refuseUnrouted } from "./unrouted.ts";
import { isManagement, WORK } from "./work.ts";

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
    context.log.error({ reason: reasonOf(error) }, "a call broke");
    const { status, headers, body } = context.parts.writeRefusal({ refuse: "key_service_unavailable" });
    context.parts.writeAnswer(reply.raw as ServerResponse, status, [...headers], body);
  });
  return server;
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
