/**
 * One child process: in a process group of its own, its output captured line by line and masked, known by number and
 * start time. Nothing here decides when it ends; supervision.ts does.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createWriteStream, type WriteStream } from "node:fs";
import type { Writable } from "node:stream";
import { isMainThread } from "node:worker_threads";
import { pause } from "../chaos/waiting.ts";
import { type GroupId, startTimeOf } from "./processes.ts";
import type { Redactor } from "./redaction.ts";

export type Output = "stdout" | "stderr";
export type Exit = { code: number | null; signal: NodeJS.Signals | null };

export type ChildSpec = {
  name: string;
  command: string;
  args?: readonly string[];
  /** On top of this process's environment. Values of names that sound secret are masked from then on. */
  env?: Record<string, string>;
  cwd?: string;
  /** `at-stdin-eof`: one of ours, which ends when the runner does. `by-signal`: everybody else. */
  ends: "at-stdin-eof" | "by-signal";
  /** Ended after all others, because they need it (toxiproxy). */
  endLast?: boolean;
  /** Between SIGTERM and SIGKILL, in milliseconds. */
  graceMs?: number;
  /** Files that the masked lines are appended to. */
  files?: Partial<Record<Output, string>>;
  onLine?: (line: string, from: Output) => void;
  /** Whether the kernel is asked to kill it when the runner dies, where it can (default true). */
  deathSignal?: boolean;
};

/** Lines kept for `waitForLine` and for messages. */
const LINES_KEPT = 200;
const SOUNDS_SECRET = /(?:SECRET|TOKEN|PASSWORD|_KEY)$/i;

let setprivWorks: boolean | undefined;
/** Busybox has a setpriv without this option, so it is tried once. */
const hasSetpriv = (): boolean => {
  setprivWorks ??=
    process.platform === "linux" &&
    spawnSync("setpriv", ["--pdeathsig", "KILL", "--", "true"], { stdio: "ignore", timeout: 5_000 }).status === 0;
  return setprivWorks;
};

export type Started = {
  group: GroupId;
  stdin: Writable | null;
  exited: Promise<Exit>;
  hasExited: () => boolean;
  lastLines: () => string[];
  waitForLine: (match: RegExp, options: { deadlineMs: number; from?: Output }) => Promise<string>;
};

type Waiter = { match: RegExp; from: Output; resolve: (line: string) => void };

/** Spawns it; `onSpawned` is called in the same turn, before anything else can go wrong. Throws a sentence. */
export const startChild = async (
  spec: ChildSpec,
  redactor: Redactor,
  marked: Record<string, string>,
  onSpawned: (group: GroupId) => void,
): Promise<Started> => {
  const { name, command, args = [], env = {}, files = {} } = spec;
  for (const [variable, value] of Object.entries(env)) if (SOUNDS_SECRET.test(variable)) redactor.register(value);
  // The kernel's signal comes when the thread that started the child ends, so only the main one may ask for it.
  const guarded = spec.ends === "by-signal" && spec.deathSignal !== false && isMainThread && hasSetpriv();
  const [file, fileArgs] = guarded ? ["setpriv", ["--pdeathsig", "KILL", "--", command, ...args]] : [command, args];
  const child: ChildProcess = spawn(file, fileArgs, {
    detached: true,
    stdio: [spec.ends === "at-stdin-eof" ? "pipe" : "ignore", "pipe", "pipe"],
    env: { ...process.env, ...env, ...marked },
    ...(spec.cwd === undefined ? {} : { cwd: spec.cwd }),
  });
  const { pid } = child;
  if (pid === undefined) {
    const error = await new Promise<NodeJS.ErrnoException>((resolve) => child.once("error", resolve));
    const why = error.code === "ENOENT" ? "there is no such program" : error.message;
    throw new Error(redactor.redact(`could not start ${name} (${command}): ${why}`));
  }
  const group: GroupId = { pid, pgid: pid, start: startTimeOf(pid) ?? "gone" };
  onSpawned(group);
  child.on("error", () => {});
  child.stdin?.on("error", () => {});

  const kept: { line: string; from: Output }[] = [];
  const waiters = new Set<Waiter>();
  const sinks: WriteStream[] = [];
  for (const from of ["stdout", "stderr"] as const) {
    const path = files[from];
    const sink = path === undefined ? null : createWriteStream(path, { flags: "a", mode: 0o600 });
    // A full disk must not end the run in the middle of a fault; the line is still kept and handed on.
    sink?.on("error", () => {});
    if (sink !== null) sinks.push(sink);
    const lines = redactor.lines((line) => {
      sink?.write(`${line}\n`);
      if (kept.push({ line, from }) > LINES_KEPT) kept.shift();
      for (const waiter of waiters) if (waiter.from === from && waiter.match.test(line)) waiter.resolve(line);
      spec.onLine?.(line, from);
    });
    const stream = child[from];
    stream?.on("data", lines.push);
    stream?.on("close", lines.end);
  }

  let over = false;
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const exited = new Promise<Exit>((resolve) => {
    child.once("exit", (code, signal) => {
      over = true;
      // Its last lines come with "close", which does not come while a child of its own holds the pipe.
      const inTime = new AbortController();
      void Promise.race([closed, pause(500, inTime.signal)]).then(() => {
        inTime.abort();
        for (const sink of sinks) sink.end();
        resolve({ code, signal });
      });
    });
  });
  const lastLines = (): string[] => kept.slice(-5).map(({ line }) => line);

  const waitForLine: Started["waitForLine"] = (match, { deadlineMs, from = "stdout" }) =>
    new Promise((resolve, reject) => {
      const seen = kept.find((one) => one.from === from && match.test(one.line));
      if (seen !== undefined) return resolve(seen.line);
      const finish = (act: () => void): void => {
        clearTimeout(timer);
        waiters.delete(waiter);
        act();
      };
      const said = (): string => (kept.length === 0 ? "it said nothing" : `its last lines: ${lastLines().join(" | ")}`);
      const waiter: Waiter = { match, from, resolve: (line) => finish(() => resolve(line)) };
      const timer = setTimeout(
        () => finish(() => reject(new Error(`${name} did not say ${match} within ${deadlineMs} ms; ${said()}`))),
        deadlineMs,
      );
      waiters.add(waiter);
      void exited.then(({ code, signal }) => {
        if (waiters.has(waiter))
          finish(() => reject(new Error(`${name} ended (${signal ?? code}) before it said ${match}; ${said()}`)));
      });
    });

  return { group, stdin: child.stdin, exited, hasExited: () => over, lastLines, waitForLine };
};
