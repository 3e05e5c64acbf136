/**
 * Processes that a fault may kill, stop and start again on the same ports and store, as an orchestrator would; and
 * whole reference platforms for commands without a target file.
 */
import { mkdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Role, Urls } from "../platform/start-role.ts";
import { type Started, startChild } from "../supervision/child.ts";
import { freePort } from "../supervision/free-port.ts";
import { signalGroup } from "../supervision/processes.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import type { Child, Supervisor } from "../supervision/supervisor.ts";
import { inTime, pause, waitUntil } from "../supervision/waiting.ts";
import { httpProbe, type LinkProbe, observeLink, redisProbe } from "../tools/link-probe.ts";

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
