/** What all calls of one API replica share, and how a finished call is recorded: its outcome, and a line in the log. */
import { randomBytes } from "node:crypto";
import type { DestinationStream } from "pino";
import { stated } from "../../contract/stated.ts";
import type { Deployment } from "../../core/call.ts";
import type { Rate } from "../../core/rate-limit.ts";
import { adaptiveShedder } from "../../core/shedding.ts";
import type { FailPlan } from "../control-plane.ts";
import { createInference, DEFAULT_INFERENCE, type InferenceOptions } from "../inference.ts";
import { adminTokenVerifier } from "../keys/secret.ts";
import type { Network } from "../links/http-service.ts";
import type { Parts } from "../parts.ts";
import type { Clock, Keys, Limiter } from "../ports.ts";
import { createLog, type LogLevel } from "./caller.ts";
import { createKeyCache } from "./key-cache.ts";
import type { ListenerLimits, TlsOptions } from "./listener.ts";
import { STREAM_LIMITS, type StreamLimits, type StreamRun } from "./routes/stream-run.ts";
import { createSessions, SESSION_LIFETIME_S } from "./sessions.ts";
import { createSettlement } from "./settlement.ts";

// An operator's counts of calls (`GET /counts`) and orders for next calls (`fail_next` of `PATCH /deployment`).

const orderedFailures = () => {
  let plans: FailPlan[] = [];
  return {
    order: (plan: FailPlan): void => {
      if (plan.count > 0) plans.push({ ...plan });
    },
    /** Returns the failure ordered for this admitted call, if any, and uses it up. */
    take: (route: string): FailPlan | null => {
      const plan = plans.find((one) => one.route === route);
      if (plan === undefined) return null;
      plan.count -= 1;
      plans = plans.filter(({ count }) => count > 0);
      return plan;
    },
    left: (): number => plans.reduce((sum, { count }) => sum + count, 0),
  };
};

/** The most runs remembered; the one that has been silent the longest is forgotten first. */
const RUNS_MAX = 1_000;

/**
 * Counts calls by the run in the client's `X-Request-Id`: everything before its last `.`, `:` or `/`. `?run=r1` adds up
 * `r1` and the runs that begin with `r1` and one of the three. A call without a run counts only in the sum of all.
 */
export const countedOutcomes = () => {
  /** Numbers of calls; a key is an outcome, a line break and an organization. */
  const all = new Map<string, number>();
  /** In the order of their last calls. */
  const runs = new Map<string, typeof all>();
  const rowOf = (run: string): typeof all => {
    const row: typeof all = runs.get(run) ?? new Map();
    runs.delete(run);
    runs.set(run, row);
    if (runs.size > RUNS_MAX) runs.delete(runs.keys().next().value as string);
    return row;
  };
  return {
    /** `requestId`: the client's, `null` if it sent none. `org`: `"-"` for a call refused before it was known. */
    count: (requestId: string | null, outcome: string, org: string): void => {
      const name = `${outcome}\n${org}`;
      const run = /^(.+)[.:/]/.exec(requestId ?? "")?.[1];
      for (const row of run === undefined ? [all] : [all, rowOf(run)]) row.set(name, (row.get(name) ?? 0) + 1);
    },
    /** The counts of a run; `null`: of all calls since the start. */
    of: (run: string | null): Record<string, Record<string, number>> => {
      const sum: Record<string, Record<string, number>> = {};
      const belongs = (id: string): boolean => id === run || [".", ":", "/"].some((end) => id.startsWith(run + end));
      const rows = run ? [...runs].filter(([id]) => belongs(id)).map(([, row]) => row) : [all];
      for (const [name, n] of rows.flatMap((row) => [...row])) {
        const [outcome, org] = [name.slice(0, name.indexOf("\n")), name.slice(name.indexOf("\n") + 1)];
        sum[outcome] ??= {};
        const byOrg = sum[outcome];
        byOrg[org] = (byOrg[org] ?? 0) + n;
      }
      return sum;
    },
  };
};

export type ApiOptions = {
  host?: string;
  port?: number;
  sessionSecret: string;
  adminSecret: string;
  globalInFlight?: number;
  orgInFlight?: number;
  shedding?: "fixed" | "adaptive";
  /** The tolerated queue wait of adaptive shedding. */
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
  clock: Clock;
  /** How long running calls may take to finish, and refunds to be confirmed, when the service stops. */
  stopDeadlineMs?: number;
  network?: Network;
};

const DEFAULT_RATE: Rate = { perS: 50, burst: 100 };
const REFUND_BUDGET_MS = 1_000;

const freshIds = (): (() => string) => {
  const boot = randomBytes(16).toString("base64url");
  let n = 0;
  return () => `${boot}-${(++n).toString(36)}`;
};

export const createContext = (options: ApiOptions, links: { keys: Keys; limiter: Limiter }, parts: Parts) => {
  const log = createLog(options.logLevel ?? "info", options.logTo);
  const { globalInFlight = 64, orgInFlight = 32, toleratedWaitMs = 20, keyServiceBudgetMs = 1_000 } = options;
  const caps = { globalInFlight, orgInFlight };
  const shedder = options.shedding === "adaptive" ? adaptiveShedder({ ...caps, toleratedWaitMs }) : parts.shedder(caps);
  const limiter = parts.limiterLink(links.limiter);
  return {
    parts,
    clock: options.clock,
    /** What the core reads; the same object for every call. */
    deployment: {
      sessions: "enabled",
      rate: options.rateLimit === undefined ? DEFAULT_RATE : options.rateLimit,
      designCap: options.designCap ?? null,
    } as Deployment,
    failures: orderedFailures(),
    shedder,
    sessions: createSessions(options.sessionSecret),
    adminTokens: adminTokenVerifier(options.adminSecret),
    keyCache: createKeyCache(parts.keyLink(links.keys), parts.keyCache, keyServiceBudgetMs),
    keyManagement: links.keys,
    limiter,
    settlement: createSettlement(limiter, parts.settlement, REFUND_BUDGET_MS),
    inference: createInference(
      { ...DEFAULT_INFERENCE, ...stated(options.inference ?? {}) },
      parts.serviceMs,
      (waitMs) => shedder.sample(waitMs, performance.now()),
    ),
    counts: countedOutcomes(),
    log,
    logsCalls: log.isLevelEnabled("debug"),
    freshId: freshIds(),
    streamLimits: { ...STREAM_LIMITS, ...stated(options.streamLimits ?? {}) },
    limiterBudgetMs: options.limiterBudgetMs ?? 250,
    keyServiceBudgetMs,
    sessionLifetimeS: options.sessionLifetimeS ?? SESSION_LIFETIME_S,
    trustedProxies: options.trustedProxies ?? [],
    /** Chat turns a month that the `quota` event reports; nothing is refused by it (items 171, A24). */
    chatTurnLimit: options.chatTurnLimit ?? 10_000,
    chatTurns: new Map<string, number>(),
    openStreams: new Set<StreamRun>(),
    stopping: false,
    credentialConflicts: 0,
    /** Calls that have not ended; those of key management hold no slot (A22). */
    openCalls: 0,
  };
};

export type ApiContext = ReturnType<typeof createContext>;

/** `givenId`: the client's request id, `null` if it sent none (a made-up id names no run). `org`: `"-"` if unknown. */
export const countOutcome = (context: ApiContext, givenId: string | null, outcome: string, org: string): void => {
  const counted = context.parts.count(outcome, org);
  if (counted !== null) context.counts.count(givenId, counted.outcome, counted.org);
};
