/**
 * What a run works with: its deployments (how to reach one, its processes and stores if the run started them, and how such
 * a process is started, stopped and started again), and the context that run/recorded-run.ts makes.
 */

import { mkdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Line } from "../history/line.ts";
import type { Calibration, Claim, Measurement, RampStep, StageOutcome } from "../history/run-document.ts";
import type { Sample } from "../history/series.ts";
import type { Role, Urls } from "../platform/start-role.ts";
import { type Started, startChild } from "../supervision/child.ts";
import { freePort } from "../supervision/free-port.ts";
import type { Journal } from "../supervision/journal.ts";
import { signalGroup } from "../supervision/processes.ts";
import { REPOSITORY, type RunFolder } from "../supervision/run-folder.ts";
import type { Child, Supervisor } from "../supervision/supervisor.ts";
import { inTime, pause, waitUntil } from "../supervision/waiting.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { httpProbe, type LinkProbe, observeLink, redisProbe } from "../tools/link-probe.ts";
import type { ToolName } from "../tools/tool-recipe.ts";
import type { Toxiproxy } from "../tools/toxiproxy.ts";
import type { BudgetGuard } from "../workload/budget.ts";
import type { RateFound } from "../workload/callers/target-view.ts";
import type { RemoteWatch } from "./remote-watch.ts";

type LimiterStore = { kind: "sqlite"; path: string } | { kind: "redis"; redis: RedisPart };

export type OwnParts = {
  limiter: Part;
  keys: Part;
  apis: readonly Part[];
  store: LimiterStore;
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

export type Recording = {
  /** Reads the stage's lines back from disk in time order; memory holds only lines that came out of order. */
  lines(): Promise<Iterable<Line>>;
};

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
  record(stage: string, how?: RecordingOptions): Promise<Recording>;
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
export const stoppedBy = ({ deployments }: Pick<RunContext, "deployments">): string | null =>
  deployments.map(({ budget }) => budget.stopped).find((stopped) => stopped !== null)?.reason ?? null;

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

export type ServePart = { part: Part; url: string; control: string };

export type RoleStarter = (name: string, role: Exclude<Role, "all">, args: readonly string[]) => Promise<ServePart>;

const SERVE_READY_MS = 30_000;
const ENTRY = join(REPOSITORY, "src/cli/floodgate.mjs");

/** A command of Floodgate that serves until this process ends. */
const serving = (name: string, words: readonly string[], env: Record<string, string>) => ({
  ...{ name, command: process.execPath, ends: "at-stdin-eof" as const },
  args: ["--disable-warning=ExperimentalWarning", ENTRY, ...words],
  env: { ...env, FLOODGATE_END_WITH_STDIN: "1" },
});

/** `secrets` are environment variables; `logOf` returns the log file of a process by its name. */
export const roleStarter = (options: {
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
/** The numbers of `SERVED` in words, for users. */
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
  await using atEnd = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "floodgate-served-"));
  atEnd.defer(() => rm(folder, { recursive: true, force: true }));
  const files = Array.from({ length: count }, (_, at) => join(folder, `served-${at + 1}.json`));
  for (const file of files) {
    const words = ["serve", "--port", "0", "--log-level", "error", ...options, "--write-target", file];
    const child = await startChild(serving("the reference platform", words, OWN_SECRETS));
    atEnd.defer(() => end(child));
    await child.waitForLine(/^\{/, { deadlineMs: SERVE_READY_MS });
  }
  return await work(files);
};
