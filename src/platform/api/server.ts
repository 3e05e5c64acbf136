/**
 * Takes calls over in Fastify's earliest hook, so that a refused call is never parsed and clients see no error body of
 * Fastify. 404, 405 and preflights are answered before the cap (items 18, 160).
 */
import { type IncomingMessage, METHODS, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { type GapRefusalName, outcomeOf } from "../../contract/refusals.ts";
import { ROUTE_NAMES, type RouteName, routeOf } from "../../contract/routes.ts";
import { reasonOf, TCP, urlOf } from "../links/http-service.ts";
import type { Parts } from "../parts.ts";
import type { Keys, Limiter } from "../ports.ts";
import type { Answer } from "./answer.ts";
import { requestIdOf } from "./caller.ts";
import { type ApiContext, type ApiOptions, countOutcome, createContext } from "./context.ts";
import { apiControl, openGauges } from "./control.ts";
import { IncomingCall } from "./incoming-call.ts";
import { guardRequests, LISTENER_LIMITS, type ListenerLimits, listenerOptions, type TlsOptions } from "./listener.ts";
import { openApiDocument } from "./openapi.ts";
import { WORK } from "./routes/work.ts";

const BASE_PATH = "/v1";

type Begin = (request: FastifyRequest, response: ServerResponse) => void;

const unreachable = (): never => {
  throw new Error("unreachable: calls are taken over in the first hook");
};

const createServer = (context: ApiContext, limits: ListenerLimits, options: { tls?: TlsOptions; http2?: boolean }) => {
  const { parts } = context;
  /** Answers a request outside the routes, which is counted for no organization. */
  const answer = (request: IncomingMessage, response: ServerResponse, outcome: string, unrouted: Answer): void => {
    const { status, headers, body } = unrouted;
    const givenId = requestIdOf(request.headers);
    countOutcome(context, givenId, outcome, "-");
    if (context.stopping) response.shouldKeepAlive = false;
    parts.writeAnswer(response, status, [...headers, "X-Request-Id", givenId ?? context.freshId()], body);
  };
  const refuse = (request: IncomingMessage, response: ServerResponse, name: GapRefusalName, ...more: string[]) => {
    const { headers, ...refusal } = parts.writeRefusal({ refuse: name });
    answer(request, response, outcomeOf(name), { ...refusal, headers: [...headers, ...more, "Vary", "Origin"] });
  };
  const notFound = (request: { raw: unknown }, reply: { raw: unknown }): void =>
    refuse(request.raw as IncomingMessage, reply.raw as ServerResponse, "not_found");
  const preflight = (request: IncomingMessage, response: ServerResponse, methods: string): void => {
    const { origin, "access-control-request-headers": asked } = request.headers;
    const headers = ["Vary", "Origin, Access-Control-Request-Headers", "Allow", methods];
    if (origin !== undefined) {
      headers.push("Access-Control-Allow-Origin", origin, "Access-Control-Allow-Methods", methods);
      headers.push("Access-Control-Max-Age", "600");
      if (asked !== undefined) headers.push("Access-Control-Allow-Headers", String(asked));
    }
    answer(request, response, "204", { status: 204, headers, body: "" });
  };
  const server = fastify({
    logger: false,
    genReqId: () => "",
    exposeHeadRoutes: false,
    return503OnClosing: false,
    routerOptions: { maxParamLength: 256 },
    frameworkErrors: (_error, request, reply) => notFound(request, reply),
    ...listenerOptions(limits, options),
  }) as unknown as FastifyInstance;

  for (const method of METHODS) if (!server.supportedMethods.includes(method)) server.addHttpMethod(method);
  guardRequests(server, limits, options.http2 === true);
  const add = (path: string, method: string[], begin: Begin): void => {
    server.route({
      method,
      url: BASE_PATH + path.replace(/\{(\w+)\}/g, ":$1"),
      // The hook never calls `done`, so Fastify does nothing more with the call.
      onRequest: (request: FastifyRequest, reply: FastifyReply, _done: unknown) => begin(request, reply.raw),
      handler: unreachable,
    });
  };
  // `GET` answers `HEAD` too. Every path answers a preflight, and any other method with 405.
  const methodsOf = (name: RouteName) => (routeOf(name).method === "GET" ? ["GET", "HEAD"] : [routeOf(name).method]);
  for (const [path, names] of Map.groupBy(ROUTE_NAMES, (name) => routeOf(name).path)) {
    for (const name of names) {
      add(path, methodsOf(name), (...asked) => new IncomingCall(context, name, WORK[name], ...asked).go());
    }
    const methods = names.flatMap(methodsOf);
    const allowed = [...methods, "OPTIONS"].join(", ");
    const others = server.supportedMethods.filter((method) => !methods.includes(method) && method !== "OPTIONS");
    add(path, ["OPTIONS"], ({ raw }, response) => preflight(raw, response, allowed));
    add(path, others, ({ raw }, response) => refuse(raw, response, "method_not_allowed", "Allow", allowed));
  }
  const description = openApiDocument();
  server.get("/openapi.json", (_request, reply) => reply.type("application/json").send(description));
  // The body of a request to an unknown path is not read.
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", (_request, _payload, done) => done(null, undefined));
  server.setNotFoundHandler(notFound);
  server.setErrorHandler((error, request, { raw: response }) => {
    if (request.routeOptions.url === undefined) return notFound(request, { raw: response });
    context.log.error({ reason: reasonOf(error) }, "a call broke");
    if (response.headersSent) return void response.destroy();
    const { status, headers, body } = parts.writeRefusal({ refuse: "key_service_unavailable" });
    parts.writeAnswer(response, status, [...headers], body);
  });
  return server;
};

// The API of one replica: starts it, and stops it without cutting off its calls.

const STOP_LOOK_MS = 20;
const LAST_BYTES_MS = 200;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** `url` has the version segment. `close` lets calls finish until the deadline, then settles refunds and closes. */
export const startApiService = async (
  options: ApiOptions,
  links: { keys: Keys; limiter: Limiter; sockets(): number },
  parts: Parts,
) => {
  // Objects that survive a garbage collection make V8 allocate their kind in its old space (pretenuring), and each call
  // then takes a third to a half more CPU. The flag holds for the whole process.
  setFlagsFromString("--no-allocation-site-pretenuring");
  const context = createContext(options, links, parts);
  const server = createServer(context, { ...LISTENER_LIMITS, ...options.listenerLimits }, options);
  const sockets = new Set<Socket>();
  server.server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await server.ready();
  const { network = TCP, port = 0, host = "127.0.0.1", tls } = options;
  const listensAt = await network.listen(server.server, { port, host });
  const url = `${urlOf(tls === undefined ? "http" : "https", listensAt)}/v1`;
  const { log, shedder, inference, counts } = context;
  log.info({ url, caps: shedder.caps(), slots: inference.capacity.slots }, "the API listens");

  const gauges = openGauges(context, sockets, links.sockets);
  return {
    url,
    control: apiControl(context, gauges.read),
    gauges: gauges.read,
    counts: (run: string) => counts.of(run),
    close: async (): Promise<void> => {
      const untilMs = performance.now() + (options.stopDeadlineMs ?? 30_000);
      context.stopping = true;
      log.info({ inFlight: shedder.inFlight() }, "the API stops");
      const listener = server.server;
      const destroyAll = (): void => {
        for (const socket of sockets) socket.destroy();
      };
      const closed = server.close();
      if (!context.parts.streamsFinishOnStop) destroyAll();
      while (context.openCalls > 0 && performance.now() < untilMs) {
        listener.closeIdleConnections?.();
        await pause(STOP_LOOK_MS);
      }
      for (const stream of [...context.openStreams]) stream.interrupt();
      listener.closeIdleConnections?.();
      await Promise.race([closed, pause(LAST_BYTES_MS)]);
      destroyAll();
      await closed;
      const drainMs = context.parts.refundsSettleOnStop ? Math.max(1_000, untilMs - performance.now()) : 0;
      const left = await context.settlement.drain(drainMs);
      if (left > 0) log.warn({ unsettled: left }, "refunds are left unconfirmed");
      context.settlement.close();
      inference.close();
      log.info("the API has stopped");
      gauges.close();
    },
  };
};

export type ApiService = Awaited<ReturnType<typeof startApiService>>;
