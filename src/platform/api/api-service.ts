import type { Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import type { FastifyInstance } from "fastify";
import type { DestinationStream, Logger } from "pino";
import { adaptiveShedder } from "../../core/adaptive-shedding.ts";
import type { Rate } from "../../core/rate-limit.ts";
import { type Clock, shiftableClock } from "../clock.ts";
import type { Service } from "../control-plane.ts";
import { createInference, DEFAULT_INFERENCE, type Inference, type InferenceOptions } from "../inference.ts";
import { adminTokenVerifier } from "../keys/secret.ts";
import type { Keys } from "../keys.ts";
import type { Limiter } from "../limiter.ts";
import { type Network, TCP, urlOf } from "../links/network.ts";
import type { Parts } from "../parts.ts";
import { type ApiContext, freshIds } from "./context.ts";
import { apiControl, type Gauges, openGauges } from "./control.ts";
import { createKeyCache } from "./key-cache.ts";
import { LISTENER_LIMITS, type ListenerLimits, type TlsOptions } from "./listener.ts";
import { DeploymentState, OutcomeCounts } from "./operator-state.ts";
import { createLog, type LogLevel } from "./request-log.ts";
import { STREAM_LIMITS, type StreamLimits, type StreamRun } from "./routes/stream-run.ts";
import { createServer } from "./server.ts";
import { createSessions, SESSION_LIFETIME_S } from "./sessions.ts";
import { createSettlement } from "./settlement.ts";

export type ApiOptions = {
  host?: string;
  port?: number;
  sessionSecret: string;
  adminSecret: string;
  globalInFlight?: number;
  orgInFlight?: number;
  shedding?: "fixed" | "adaptive";
  /** For adaptive shedding: the queue wait that is tolerated. */
  toleratedWaitMs?: number;
  rateLimit?: Rate | null;
  /** Design analyses a month that an organization may have; `null` only counts (item 122). */
  designCap?: number | null;
  inference?: Partial<InferenceOptions>;
  sessionLifetimeS?: number;
  limiterBudgetMs?: number;
  keyServiceBudgetMs?: number;
  streamLimits?: Partial<StreamLimits>;
  listenerLimits?: Partial<ListenerLimits>;
  trustedProxies?: readonly string[];
  chatTurnLimit?: number;
  tls?: TlsOptions;
  http2?: boolean;
  logLevel?: LogLevel;
  logTo?: DestinationStream;
  clock?: Clock;
  /** How long running calls may take to finish, and refunds to be confirmed, when the service stops. */
  stopDeadlineMs?: number;
  network?: Network;
};

/** `url` is `{base_url}`, with the version segment. `close` lets running calls finish until the deadline, settles, closes. */
export type ApiService = Service & {
  gauges(): Gauges;
  counts(run: string): Record<string, Record<string, number>>;
  /** For an operator in the same process: capacity that drops or recovers. */
  inference: Inference;
  log: Logger;
};

const DEFAULT_RATE: Rate = { perS: 50, burst: 100 };
const BACKLOG = 4096;
const REFUND_BUDGET_MS = 1_000;

export const startApiService = async (
  options: ApiOptions,
  links: { keys: Keys; limiter: Limiter; sockets?(): number },
  parts: Parts,
): Promise<ApiService> => {
  // Objects of calls under way during a collection make V8 allocate their kind in its old space, and each call then takes
  // a third to a half more CPU. The flag holds for the whole process.
  setFlagsFromString("--no-allocation-site-pretenuring");
  const clock = options.clock ?? shiftableClock();
  const log = createLog(options.logLevel ?? "info", options.logTo);
  const inferenceOptions = { ...DEFAULT_INFERENCE, ...options.inference };
  const { globalInFlight = 64, orgInFlight = 32 } = options;
  const caps = { globalInFlight, orgInFlight };
  const shedder =
    options.shedding === "adaptive"
      ? adaptiveShedder({ ...caps, toleratedWaitMs: options.toleratedWaitMs ?? 20 })
      : parts.shedder(caps);
  const limiter = parts.limiterLink(links.limiter);
  const keyServiceBudgetMs = options.keyServiceBudgetMs ?? 1_000;
  const context: ApiContext = {
    parts,
    clock,
    deployment: new DeploymentState({
      sessions: "enabled",
      rate: options.rateLimit === undefined ? DEFAULT_RATE : options.rateLimit,
      designCap: options.designCap ?? null,
    }),
    shedder,
    sessions: createSessions(options.sessionSecret),
    adminTokens: adminTokenVerifier(options.adminSecret),
    keyCache: createKeyCache(parts.keyLink(links.keys), parts.keyCache, keyServiceBudgetMs),
    keyManagement: links.keys,
    limiter,
    settlement: createSettlement(limiter, parts.settlement, REFUND_BUDGET_MS),
    inference: createInference(inferenceOptions, parts.serviceMs, (waitMs) =>
      shedder.sample(waitMs, performance.now()),
    ),
    counts: new OutcomeCounts(),
    log,
    logsCalls: log.isLevelEnabled("debug"),
    freshId: freshIds(),
    streamLimits: { ...STREAM_LIMITS, ...options.streamLimits },
    limiterBudgetMs: options.limiterBudgetMs ?? 250,
    keyServiceBudgetMs,
    sessionLifetimeS: options.sessionLifetimeS ?? SESSION_LIFETIME_S,
    trustedProxies: options.trustedProxies ?? [],
    chatTurnLimit: options.chatTurnLimit ?? 10_000,
    chatTurns: new Map(),
    openStreams: new Set<StreamRun>(),
    stopping: false,
    credentialConflicts: 0,
    managing: 0,
  };
  const server = createServer(context, { ...LISTENER_LIMITS, ...options.listenerLimits }, options);
  const sockets = new Set<Socket>();
  server.server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await server.ready();
  const { network = TCP, port = 0, host = "127.0.0.1", tls } = options;
  const listensAt = await network.listen(server.server, { port, host, backlog: BACKLOG });
  const url = `${urlOf(tls === undefined ? "http" : "https", listensAt)}/v1`;
  log.info({ url, caps, slots: inferenceOptions.slots }, "the API listens");

  const gauges = openGauges(context, sockets, links.sockets);
  return {
    url,
    control: apiControl(context, gauges.read),
    gauges: gauges.read,
    counts: (run) => context.counts.of(run),
    inference: context.inference,
    log,
    close: async () => {
      await stopApi(context, server, sockets, options.stopDeadlineMs ?? 30_000);
      gauges.close();
    },
  };
};

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
  const isBusy = (): boolean => context.shedder.inFlight() > 0 || context.managing > 0;
  while (isBusy() && performance.now() < untilMs) {
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
