/**
 * What a run works with: its deployments (how to reach one, its processes and stores if the run started them, and how such
 * a process is started, stopped and started again), and the context that run/recorded-run.ts makes.
 */

import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { controlSend } from "../client/control-planes.ts";
import { isLoopbackHost } from "../contract/address.ts";
import type { Line } from "../history/line.ts";
import type { Calibration, Claim, Measurement, RampStep, StageOutcome } from "../history/run-document.ts";
import type { Sample } from "../history/series.ts";
import type { Role, Urls } from "../platform/start-role.ts";
import { type Started, startChild } from "../supervision/child.ts";
import type { Journal } from "../supervision/journal.ts";
import { signalGroup } from "../supervision/processes.ts";
import { REPOSITORY, type RunFolder } from "../supervision/run-folder.ts";
import type { Child, Supervisor } from "../supervision/supervisor.ts";
import { inTime, pause, waitUntil } from "../supervision/waiting.ts";
import { createSecrets, type Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import {
  freePort,
  httpProbe,
  type LinkProbe,
  observeLink,
  reachableListener,
  redisProbe,
} from "../tools/link-probe.ts";
import { findRedis, type ToolName } from "../tools/tool-recipe.ts";
import { openToxiproxy, type Toxiproxy } from "../tools/toxiproxy.ts";
import { STAND_IN_PROXY, startToxiproxy } from "../tools/toxiproxy-server.ts";
import { type BudgetGuard, guardBudget, type Stopped } from "../workload/budget.ts";
import type { RateFound } from "../workload/callers/target-view.ts";
import { openRemoteWatch, type RemoteWatch } from "./remote-watch.ts";
import { addressesOf, EMBEDDED_LIMITS, embeddedTenants, referenceTarget, seedNow, sendSeed } from "./tenants.ts";

export type OwnParts = {
  limiter: Part;
  keys: Part;
  apis: readonly Part[];
  store: { kind: "sqlite"; path: string } | { kind: "redis"; redis: RedisPart };
  startApi(name: string): Promise<ServePart>;
  startRole: RoleStarter;
  /** The load balancer before several replicas; `upstreams`: their URLs in the order of `apis`. */
  front?: { upstreams: readonly string[]; send(upstreams: readonly string[]): Promise<unknown> };
};

/** A dependency of a deployment, by the name of its proxy in the target file. */
export type LinkName = "limiter" | "keys" | "edge";

export type FaultProxies = {
  toxiproxy: Toxiproxy;
  /** The proxy's name, and `host:port` of its listener for a probe. */
  links: Partial<Record<LinkName, { proxy: string; listen: string }>>;
  /** False if others use the toxiproxy too. */
  mayReset: boolean;
  restart?: () => Promise<void>;
};

export type Deployment = {
  readonly target: Target;
  readonly secrets: Secrets;
  readonly file?: string;
  /** The working directory for commands of the target file. */
  readonly folder: string;
  readonly embedded: boolean;
  /** Our reference platform, which must also keep our readings of what the specification leaves open. */
  readonly reference: boolean;
  readonly exclusive: boolean;
  readonly budget: BudgetGuard;
  /** Rates that ramps of this run found, where the target file states none, and what the ramp of streams carried. */
  readonly found: { chat?: RateFound; reads?: RateFound; ramp?: RampStep[] };
  /** `null` if no faults can be injected; `faultsMissing` says why. */
  readonly faults: FaultProxies | null;
  readonly faultsMissing: string;
  /** The watchdog beside a remote proxy, which heals if this machine is cut off; absent if none is needed. */
  readonly remoteWatch?: RemoteWatch;
  /** Processes and stores that this run started; it touches no others. */
  readonly own?: OwnParts;
};

/** Reads a stage's lines back from disk in time order; memory holds only lines that came out of order. */
export type ReadBack = () => Promise<Iterable<Line>>;

export type RecordingOptions = {
  /** Folds admitted calls from the first one on. */
  fold?: boolean;
  /** The deployment is the reference platform, which must keep more rules. */
  reference?: boolean;
};

export type RunEvents = {
  folder(path: string): void;
  warning(text: string): void;
  step(text: string): void;
  progress(text: string): void;
  result(text: string): void;
  stage(outcome: StageOutcome): void;
  line?(line: Line): void;
  signalled(signal: NodeJS.Signals, times: number, pending: string[]): void;
};

export type RunContext = {
  readonly seed: number;
  /** Random hex digits of this run, which begin every call's id. */
  readonly run: string;
  /** The command that reproduces the claims of this run. */
  readonly replay: string;
  readonly epochUs: number;
  nowUs(): number;
  readonly signal: AbortSignal;
  readonly supervisor: Supervisor;
  readonly journal: Journal;
  readonly folder: RunFolder;
  readonly events: RunEvents;
  /** One for each target file, in order; the body adds the embedded deployment with `opened`. */
  readonly deployments: readonly Deployment[];
  opened(deployment: Deployment): void;
  /** Finds or builds a tool, once; throws `ToolError`. */
  tool(name: ToolName): Promise<string>;
  /** Like `tool`, but `null` if it cannot be had; the report then says that `by` stands in for the tool. */
  toolOrStandIn(name: ToolName, by: string): Promise<string | null>;
  line(line: Line): void;
  /** Begins a stage whose lines are read back from the history when it is over. */
  record(stage: string, how?: RecordingOptions): Promise<ReadBack>;
  sample(sample: Sample): void;
  /** Keeps a stage's result, and writes its facts and ledger. */
  addStage(outcome: StageOutcome): Promise<void>;
  /** Adds what is judged or measured beyond the stages. */
  add(found: { claims?: readonly Claim[]; measurements?: readonly Measurement[] }): void;
  addCalibration(checks: readonly Calibration[]): void;
  /** Returns a driver's failed calibration checks, which may leave claims about time without a verdict. */
  failedChecks(driver: string): Calibration[];
};

/** Says why the run may send nothing more (budget or stop condition); `null` while it may. */
export const stoppedBy = ({ deployments }: Pick<RunContext, "deployments">): Stopped | null =>
  deployments.map(({ budget }) => budget.stopped).find((stopped) => stopped !== null) ?? null;

// Processes that a fault may kill, stop and start again on the same ports and store, as an orchestrator would; and
// whole reference platforms for commands without a target file.

export type Part = Awaited<ReturnType<typeof openPart>>["part"];

/** Starts the process; `again`: its earlier addresses, which it takes again. */
type Launch<At> = (again: At | null) => Promise<{ child: Child; at: At }>;

/** Longer than the longest call of a stage, which a process finishes before it ends. */
const END_MS = 12_000;
const TRIES = 5;
const TRY_AGAIN_MS = 200;
const PROBE_MS = 500;
const ANSWERS_MS = 10_000;

/** Tries several times, because another program's connection may hold a port for a moment. */
const tried = async <T>(start: () => Promise<T>, signal?: AbortSignal): Promise<T> => {
  for (let left = TRIES; ; left -= 1) {
    try {
      return await start();
    } catch (error) {
      if (left === 1 || signal?.aborted) throw error;
      await pause(TRY_AGAIN_MS, signal);
    }
  }
};

export const openPart = async <At>(
  name: string,
  launch: Launch<At>,
  probeOf: (at: At, giveUpMs: number) => LinkProbe,
) => {
  let { child, at } = await launch(null);
  let isEnding = false;

  const startAgain = async (signal: AbortSignal): Promise<void> => {
    ({ child, at } = await tried(() => launch(at), signal));
  };
  const gone = async (): Promise<void> => {
    if ((await inTime(child.exited, END_MS)) === "late")
      throw new Error(`${name} was asked to end and is there after ${END_MS / 1000} s`);
  };
  const part = {
    name,
    startAgain,
    pid: (): number => child.pid,
    isRunning: (): boolean => !child.hasExited(),
    kill: async (): Promise<void> => {
      child.signal("SIGKILL");
      await child.exited;
    },
    askToEnd: (): void => {
      child.signal("SIGTERM");
      isEnding = true;
    },
    /** Sends SIGTERM; resolves when the process has finished its work and is gone. Rejects at the deadline. */
    endInOrder: async (): Promise<void> => {
      child.signal("SIGTERM");
      await gone();
    },
    /** Sends SIGSTOP: the process keeps its connections and sends nothing more. */
    stop: (): void => child.signal("SIGSTOP"),
    /** Wakes the process or starts it again; resolves when it answers. */
    bringBack: async (signal: AbortSignal): Promise<void> => {
      if (isEnding) await gone();
      isEnding = false;
      if (child.hasExited()) await startAgain(signal);
      else child.signal("SIGCONT");
      const answers = async (): Promise<boolean> => (await observeLink(part.probe(PROBE_MS))).ended === "complete";
      const { met } = await waitUntil(answers, { forMs: ANSWERS_MS, pollMs: 20, signal });
      if (!met) throw new Error(`${name} does not answer ${ANSWERS_MS / 1000} s after it was brought back`);
    },
    /** Sends one request to the process's own port, past every proxy. */
    probe: (giveUpMs: number): LinkProbe => probeOf(at, giveUpMs),
  };
  return { part, at };
};

export type RedisPart = Awaited<ReturnType<typeof startRedisPart>>;

const REDIS_READY_MS = 10_000;
const HOST = "127.0.0.1";

const settings = (port: number, folder: string): string[] => [
  ...["--port", `${port}`, "--bind", HOST, "--dir", folder, "--save", ""],
  ...["--appendonly", "yes", "--appendfsync", "always", "--loglevel", "notice"],
];

type RedisOptions = Record<"path" | "folder" | "log", string> & { supervisor: Supervisor };

export const startRedisPart = async ({ supervisor, path, folder, log }: RedisOptions) => {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  /** Further arguments of the next start, e.g. to make it slow. */
  const nextArgs: string[] = [];
  const startOn = async (port: number) => {
    const args = [...settings(port, folder), ...nextArgs];
    const files = { stdout: log, stderr: log };
    const child = await supervisor.start({ name: "limiter", command: path, args, ends: "by-signal", files });
    // Redis already listens while it loads its files, but refuses every command until they are loaded.
    await child.waitForLine(nextArgs.length === 0 ? /Ready to accept connections/ : /Server initialized/, {
      deadlineMs: REDIS_READY_MS,
    });
    return { child, at: port };
  };
  // redis-server takes 0 for "no port", and another program may take a free port before it does.
  const launch = (again: number | null) =>
    again === null ? tried(async () => startOn(await freePort())) : startOn(again);
  const { part, at } = await openPart("limiter", launch, (port, giveUpMs) => redisProbe(`${HOST}:${port}`, giveUpMs));
  return { part, url: `redis://${HOST}:${at}`, nextArgs };
};

type ServePart = { part: Part; url: string; control: string };

type RoleStarter = (name: string, role: Exclude<Role, "all">, args: readonly string[]) => Promise<ServePart>;

const SERVE_READY_MS = 30_000;
const ENTRY = join(REPOSITORY, "src/cli/floodgate.mjs");

/** A command of Floodgate that serves until this process ends. */
const serving = (name: string, words: readonly string[], env: Record<string, string>) => ({
  ...{ name, command: process.execPath, ends: "at-stdin-eof" as const },
  args: ["--disable-warning=ExperimentalWarning", ENTRY, ...words],
  env: { ...env, FLOODGATE_END_WITH_STDIN: "1" },
});

/** `secrets` are environment variables; `logOf` returns the log file of a process by its name. */
const roleStarter = (options: {
  supervisor: Supervisor;
  secrets: Record<string, string>;
  logOf(name: string): string;
  serve?: readonly string[] | undefined;
}): RoleStarter => {
  const { supervisor, secrets, logOf, serve = ["serve"] } = options;
  return async (name, role, args) => {
    const log = logOf(name);
    const launch = async (again: { url: string; control: string } | null) => {
      const [port, controlPort] = [again?.url, again?.control].map((url) =>
        url === undefined ? "0" : new URL(url).port,
      );
      const ports = ["--port", `${port}`, "--control-port", `${controlPort}`];
      const child = await supervisor.start({
        ...serving(name, [...serve, "--role", role, ...ports, ...args], secrets),
        files: { stderr: log },
      });
      const line = await child.waitForLine(/^\{.*\}$/, { deadlineMs: SERVE_READY_MS });
      const urls = JSON.parse(line) as Urls;
      return { child, at: { url: urls[role] as string, control: urls.control?.[role] as string } };
    };
    const { part, at } = await openPart(name, launch, ({ url }, giveUpMs) =>
      httpProbe(new URL(url).host, "/health", giveUpMs),
    );
    return { part, ...at };
  };
};

/** The platform as in the README's example of `serve`. */
const SERVED = { tenants: 12, slots: 24, "service-ms": 200 };
const SERVED_OPTIONS = Object.entries(SERVED).flatMap(([name, value]) => [`--${name}`, `${value}`]);
export const SERVED_TEXT = `${SERVED.slots} slots of ${SERVED["service-ms"]} ms, ${SERVED.tenants} tenants`;
/** The environment's secrets may belong to another deployment, so each platform makes its own. */
const OWN_SECRETS = { FLOODGATE_SESSION_SECRET: "", FLOODGATE_ADMIN_SECRET: "" };
const SERVED_END_MS = 5_000;

const end = async ({ stdin, exited, group }: Started): Promise<void> => {
  stdin?.end();
  if ((await inTime(exited, SERVED_END_MS)) === "late") signalGroup(group, "SIGKILL");
};

/** Starts `count` platforms and calls `work` with their target files. Afterwards platforms and files are gone. */
export const withServed = async <T>(count: number, work: (files: string[]) => Promise<T>, options = SERVED_OPTIONS) => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "floodgate-served-"));
  await using atEnd = new AsyncDisposableStack();
  const files = Array.from({ length: count }, (_, at) => join(folder.path, `served-${at + 1}.json`));
  for (const file of files) {
    const words = ["serve", "--port", "0", "--log-level", "error", ...options, "--write-target", file];
    const child = await startChild(serving("the reference platform", words, OWN_SECRETS));
    atEnd.defer(() => end(child));
    await child.waitForLine(/^\{/, { deadlineMs: SERVE_READY_MS });
  }
  return await work(files);
};

// The embedded deployment: key service, limiter and API as processes, toxiproxy on both links of the API.

export type EmbeddedOptions = {
  limiter: "sqlite" | "redis";
  /** The command words that serve a role (default: `serve`); other words start a mutant. */
  serve?: readonly string[] | undefined;
};

type Starting = Pick<RunContext, "supervisor" | "folder" | "seed" | "events" | "toolOrStandIn">;

export const openEmbedded = async (context: Starting, options: EmbeddedOptions): Promise<Deployment> => {
  const { supervisor, folder, seed, events } = context;
  const { limiter: kind, serve } = options;
  const redis = kind === "redis" ? await findRedis() : undefined;
  events.step("looking for toxiproxy");
  const toxiproxyPath = await context.toolOrStandIn("toxiproxy", "a TCP proxy of Floodgate's own");
  const counts = redis === undefined ? "limiter" : `Redis ${redis.version}`;
  events.step(`starting the embedded deployment: key service, ${counts}, toxiproxy, API`);

  const data = folder.pathOf("platform");
  mkdirSync(data, { recursive: true, mode: 0o700 });
  supervisor.ownFolder("the embedded platform's stores", data);
  const adminSecret = randomBytes(32).toString("hex");
  const secrets = { FLOODGATE_SESSION_SECRET: randomBytes(32).toString("hex"), FLOODGATE_ADMIN_SECRET: adminSecret };
  const startRole = roleStarter({ supervisor, secrets, logOf: (name) => folder.pathOf(`logs/${name}.log`), serve });

  // The API's upstreams have to be known before it starts, so it comes last.
  const path = join(data, "limiter.db");
  const log = folder.pathOf("logs/limiter.log");
  const ofRedis = redis && (await startRedisPart({ supervisor, path: redis.path, folder: join(data, "redis"), log }));
  const limiter = ofRedis ?? (await startRole("limiter", "limiter", ["--limiter", `sqlite:${path}`]));
  const [keys, server] = await Promise.all([
    startRole("keys", "keys", ["--keys", `sqlite:${join(data, "keys.db")}`, "--limiter", limiter.url]),
    startToxiproxy({
      command: toxiproxyPath === null ? STAND_IN_PROXY : [toxiproxyPath],
      folder: data,
      start: (child) => supervisor.start(child),
    }),
  ]);
  const { toxiproxy } = server;
  const link = async (name: string, url: string): Promise<{ proxy: string; listen: string }> => {
    const { listen } = await toxiproxy.createProxy({ name, upstream: new URL(url).host });
    return { proxy: name, listen };
  };
  const links = { limiter: await link("limiter", limiter.url), keys: await link("keys", keys.url) };
  const limits = EMBEDDED_LIMITS;
  const startApi = (name: string) =>
    startRole(name, "api", [
      ...["--keys", `http://${links.keys.listen}`],
      ...["--limiter", `${new URL(limiter.url).protocol}//${links.limiter.listen}`],
      ...["--slots", `${limits.slots}`, "--service-ms", `${limits.service_ms}`],
      ...["--global-in-flight", `${limits.global_in_flight}`, "--org-in-flight", `${limits.org_in_flight}`],
      ...["--rate-limit", `${limits.rate_per_s}:${limits.burst}`, "--seed", `${seed}`],
    ]);
  const api = await startApi("api");
  const edge = await link("edge", api.url);
  const seeded = seedNow(embeddedTenants(), adminSecret);
  await sendSeed(keys.control, seeded);
  return {
    target: referenceTarget(api.url, seeded, {
      name: "embedded",
      // Redis has no control plane of ours, so the API shows the ledger.
      control: {
        keys: keys.control,
        limiter: "control" in limiter ? limiter.control : api.control,
        api: [api.control],
      },
      toxiproxy: { api_url: server.apiUrl, proxies: { limiter: "limiter", keys: "keys" } },
      exclusive: true,
    }),
    ...{ secrets: createSecrets(folder.path), folder: folder.path, budget: guardBudget({}) },
    ...{ embedded: true, reference: true, exclusive: true, found: {} },
    faults: { toxiproxy, links: { ...links, edge }, mayReset: true, restart: () => server.restart() },
    faultsMissing: "",
    own: {
      ...{ limiter: limiter.part, keys: keys.part, apis: [api.part], startApi, startRole },
      store: ofRedis === undefined ? { kind: "sqlite", path } : { kind: "redis", redis: ofRedis },
    },
  };
};

/** Opens the one deployment that a body works on: the target file's, or the embedded one if none was given. */
export const openDeployment = async (context: RunContext, options: EmbeddedOptions = { limiter: "sqlite" }) => {
  const [ofTarget] = context.deployments;
  if (ofTarget !== undefined) return ofTarget;
  const embedded = await openEmbedded(context, options);
  context.opened(embedded);
  return embedded;
};

export const reachedAt = (url: string, { base_url }: Target) => addressesOf(`${url}${new URL(base_url).pathname}`);

/** Adds API replicas on the same dependencies and a load balancer before them; all end with `atEnd`. */
export const withReplicas = async (
  deployment: Deployment & { own: OwnParts },
  count: number,
  atEnd: AsyncDisposableStack,
): Promise<Deployment> => {
  const { target, own } = deployment;
  const keep = (started: ServePart): ServePart => {
    const { part } = started;
    atEnd.defer(async () => void (part.isRunning() && (await part.endInOrder().catch(() => part.kill()))));
    return started;
  };
  const more = await Array.fromAsync({ length: count - 1 }, async (_, at) => keep(await own.startApi(`api-${at + 2}`)));
  const upstreams = [target.base_url, ...more.map(({ url }) => url)].map((url) => new URL(url).origin);
  const args = upstreams.flatMap((url) => ["--upstream", url]);
  const front = keep(await own.startRole("front", "front", args));
  const send = (to: readonly string[]) => controlSend("PATCH", `${front.control}/deployment`, { upstreams: to });
  const api = [...(target.control?.api ?? []), ...more.map(({ control }) => control)];
  const limits = { ...target.limits, replicas: count };
  return {
    ...deployment,
    target: { ...target, ...reachedAt(front.url, target), limits, control: { ...target.control, api } },
    own: { ...own, apis: [...own.apis, ...more.map(({ part }) => part)], front: { upstreams, send } },
  };
};

// The deployment that a target file names.

const CALL_MS = 3_000;

const HOW_TO_WATCH =
  "has to be healed also when this machine is cut off: run `floodgate chaos --watchdog --target FILE` beside it and name it in the target file as `watchdog`; or run floodgate on that host, with everything on loopback";

/** Says why no fault may be injected from here; `null` if one may. Commands are taken to act on the target's host. */
export const remoteProxy = ({ toxiproxy, faults = {}, base_url, watchdog }: Target): string | null => {
  if (watchdog !== undefined) return null;
  const host = toxiproxy === undefined ? "127.0.0.1" : new URL(toxiproxy.api_url).hostname;
  if (!isLoopbackHost(host)) return `toxiproxy.api_url is on ${host}: a fault there ${HOW_TO_WATCH}`;
  const { hostname } = new URL(base_url);
  const isByCommands = Object.keys(faults).length > 0;
  return isByCommands && !isLoopbackHost(hostname)
    ? `the deployment is on ${hostname}: what a command changes there ${HOW_TO_WATCH}`
    : null;
};

/** Says why no proxy can be used; `null` if one can, as far as the target file shows. */
export const proxiesMissing = (target: Target): string | null => {
  if (target.toxiproxy === undefined) return "`toxiproxy` is not in the target file";
  return target.permits?.chaos === true ? remoteProxy(target) : "permits.chaos of the target file is not true";
};

type Prepared = Pick<Deployment, "target" | "secrets" | "budget"> & { file: string };

/** Prepares the lease with the watchdog; the first fault takes it. */
const openWatch = async (context: RunContext, { target, secrets }: Prepared): Promise<RemoteWatch | undefined> => {
  const { watchdog, permits } = target;
  if (watchdog === undefined || permits?.chaos !== true) return undefined;
  const token = watchdog.token === undefined ? null : await secrets.read(watchdog.token, "watchdog.token");
  const watch = openRemoteWatch({ url: watchdog.url, token, holder: `run ${context.run}` });
  context.supervisor.registerUndo("end the lease with the watchdog beside the proxy", () => watch.close());
  return watch;
};

const openProxies = async (context: RunContext, target: Target) => {
  const missing = proxiesMissing(target);
  if (missing !== null) return { faults: null, faultsMissing: missing };
  const { api_url, proxies } = target.toxiproxy as NonNullable<Target["toxiproxy"]>;
  const toxiproxy = openToxiproxy(api_url, { signal: context.signal, callMs: CALL_MS });
  const links: FaultProxies["links"] = {};
  try {
    for (const [link, name] of Object.entries(proxies ?? {}) as [LinkName, string | undefined][]) {
      if (name === undefined) continue;
      const { listen } = await toxiproxy.proxy(name).read();
      links[link] = { proxy: name, listen: reachableListener(listen, api_url) };
    }
  } catch (error) {
    await toxiproxy.close();
    const faultsMissing = `the toxiproxy of the target file cannot be used: ${(error as Error).message}`;
    return { faults: null, faultsMissing };
  }
  context.supervisor.registerUndo("close the connection to toxiproxy", () => toxiproxy.close());
  // The toxiproxy is not ours, so only the named proxies are healed and the server is never reset.
  const faults: FaultProxies = { toxiproxy, links, mayReset: false };
  return { faults, faultsMissing: "" };
};

export const fromTarget = async (context: RunContext, prepared: Prepared): Promise<Deployment> => {
  const { target, secrets, budget } = prepared;
  const file = resolve(prepared.file);
  const faults = await openProxies(context, target);
  return {
    ...{ target, secrets, budget, file, folder: dirname(file) },
    ...{ embedded: false, reference: false, exclusive: target.exclusive === true, found: {} },
    ...faults,
    remoteWatch: await openWatch(context, prepared),
  };
};
