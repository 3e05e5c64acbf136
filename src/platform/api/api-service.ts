/** One API replica: its parts put together, its listener, its control plane, and its end. */
import type { AddressInfo, Socket } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { DestinationStream, Logger } from "pino";
import { adaptiveShedder } from "../../core/adaptive-shedding.ts";
import type { Rate } from "../../core/rate-limit.ts";
import type { Caps, Shedder } from "../../core/shedding.ts";
import { type Clock, shiftableClock } from "../clock.ts";
import type { ControlPart } from "../http-service.ts";
import { DEFAULT_INFERENCE, Inference, type InferenceOptions } from "../inference.ts";
import { adminTokenVerifier } from "../keys/admin-tokens.ts";
import type { Keys } from "../keys.ts";
import type { Limiter } from "../limiter.ts";
import type { Parts } from "../parts.ts";
import type { ApiContext } from "./context.ts";
import { apiControl } from "./control.ts";
import { OutcomeCounts } from "./counts.ts";
import { DeploymentState } from "./deployment.ts";
import { freshIds } from "./fresh-id.ts";
import { createKeyCache } from "./key-cache.ts";
import { LISTENER_LIMITS, type ListenerLimits, type TlsOptions } from "./listener.ts";
import { createLog, type LogLevel } from "./request-log.ts";
import { createServer } from "./server.ts";
import { createSessions, SESSION_LIFETIME_S } from "./sessions.ts";
import { createSettlement } from "./settlement.ts";
import { STREAM_LIMITS, type StreamLimits, type StreamRun } from "./stream-run.ts";

export type ApiOptions = {
  host?: string;
  /** 0: chosen by the system. */
  port?: number;
  sessionSecret: string;
  adminSecret: string;
  globalInFlight?: number;
  orgInFlight?: number;
  shedding?: "fixed" | "adaptive";
  /** For adaptive shedding: the queue wait that is tolerated. */
  toleratedWaitMs?: number;
  /** `null`: no request rate limit. */
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
};

export type Gauges = {
  in_flight: number;
  in_flight_by_org: Record<string, number>;
  sockets: number;
  event_loop_lag_ms_p99: number;
  rss_bytes: number;
  /** Refunds not confirmed yet. */
  unsettled: number;
  inference_running: number;
  inference_waiting: number;
  open_streams: number;
  credential_conflicts: number;
};

export type ApiService = {
  /** `{base_url}`, with the version segment. */
  url: string;
  control: ControlPart;
  gauges(): Gauges;
  /** For an operator in the same process: capacity that drops or recovers. */
  inference: Inference;
  log: Logger;
  /** Stops accepting, lets running calls finish until the deadline, settles, closes. */
  close(): Promise<void>;
};

const DEFAULT_RATE: Rate = { perS: 50, burst: 100 };
const DEFAULT_CAPS: Caps = { globalInFlight: 64, orgInFlight: 32 };
const LAG_RESOLUTION_MS = 10;
const BACKLOG = 4096;
const REFUND_BUDGET_MS = 1_000;
/** How often a stopping service looks whether it is done. */
const STOP_LOOK_MS = 20;
const LAST_BYTES_MS = 200;

const makeShedder = (options: ApiOptions, caps: Caps, parts: Parts): Shedder =>
  options.shedding === "adaptive"
    ? adaptiveShedder({ ...caps, toleratedWaitMs: options.toleratedWaitMs ?? 20 })
    : parts.shedder(caps);

export const startApiService = async (
  options: ApiOptions,
  links: { keys: Keys; limiter: Limiter },
  parts: Parts,
): Promise<ApiService> => {
  const clock = options.clock ?? shiftableClock();
  const log = createLog(options.logLevel ?? "info", options.logTo);
  const inferenceOptions = { ...DEFAULT_INFERENCE, ...options.inference };
  const caps = {
    globalInFlight: options.globalInFlight ?? DEFAULT_CAPS.globalInFlight,
    orgInFlight: options.orgInFlight ?? DEFAULT_CAPS.orgInFlight,
  };
  const shedder = makeShedder(options, caps, parts);
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
    inference: new Inference(inferenceOptions, parts.serviceMs, (waitMs) => shedder.sample(waitMs, performance.now())),
    counts: new OutcomeCounts(),
    log,
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
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });
  lag.enable();
  const sockets = new Set<Socket>();
  server.server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await server.listen({ port: options.port ?? 0, host: options.host ?? "127.0.0.1", backlog: BACKLOG });
  const { address, family, port } = server.server.address() as AddressInfo;
  const host = family === "IPv6" ? `[${address}]` : address;
  const url = `${options.tls === undefined ? "http" : "https"}://${host}:${port}/v1`;
  log.info({ url, caps, slots: inferenceOptions.slots }, "the API listens");

  const gauges = (): Gauges => readGauges(context, lag, sockets.size);
  return {
    url,
    control: apiControl(context, gauges),
    gauges,
    inference: context.inference,
    log,
    close: async () => {
      await stop(context, server, sockets, options.stopDeadlineMs ?? 30_000);
      lag.disable();
    },
  };
};

const readGauges = (
  context: ApiContext,
  lag: ReturnType<typeof monitorEventLoopDelay>,
  openSockets: number,
): Gauges => {
  const lagMs = Math.max(0, lag.percentile(99) / 1e6 - LAG_RESOLUTION_MS);
  lag.reset();
  return {
    in_flight: context.shedder.inFlight(),
    in_flight_by_org: context.shedder.inFlightByOrganization(),
    sockets: openSockets,
    event_loop_lag_ms_p99: Number.isFinite(lagMs) ? Math.round(lagMs * 100) / 100 : 0,
    rss_bytes: process.memoryUsage.rss(),
    unsettled: context.settlement.unsettled(),
    inference_running: context.inference.running,
    inference_waiting: context.inference.waiting,
    open_streams: context.openStreams.size,
    credential_conflicts: context.credentialConflicts,
  };
};

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const stop = async (
  context: ApiContext,
  server: ReturnType<typeof createServer>,
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
  // What was just written still has to leave.
  listener.closeIdleConnections?.();
  await Promise.race([closed, pause(LAST_BYTES_MS)]);
  destroyAll();
  await closed;
  const left = await context.settlement.drain(Math.max(1_000, untilMs - performance.now()));
  if (left > 0) context.log.warn({ unsettled: left }, "refunds are left unconfirmed");
  context.settlement.close();
  context.inference.close();
  context.log.info("the API has stopped");
};
