/** The API of one replica: starts it, and stops it without cutting off its calls. */
import type { Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import type { FastifyInstance } from "fastify";
import { TCP, urlOf } from "../links/network.ts";
import type { Parts } from "../parts.ts";
import type { Keys, Limiter } from "../ports.ts";
import { type ApiContext, type ApiOptions, createContext } from "./context.ts";
import { apiControl, openGauges } from "./control.ts";
import { LISTENER_LIMITS } from "./listener.ts";
import { createServer } from "./server.ts";

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
      await stopApi(context, server, sockets, options.stopDeadlineMs ?? 30_000);
      gauges.close();
    },
  };
};

export type ApiService = Awaited<ReturnType<typeof startApiService>>;

const STOP_LOOK_MS = 20;
const LAST_BYTES_MS = 200;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const stopApi = async (
  context: ApiContext,
  server: FastifyInstance,
  sockets: Set<Socket>,
  deadlineMs: number,
): Promise<void> => {
  const untilMs = performance.now() + deadlineMs;
  context.stopping = true;
  context.log.info({ inFlight: context.shedder.inFlight() }, "the API stops");
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
  if (left > 0) context.log.warn({ unsettled: left }, "refunds are left unconfirmed");
  context.settlement.close();
  context.inference.close();
  context.log.info("the API has stopped");
};
