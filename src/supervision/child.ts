/** Starts a child process in its own group, known by id and start time, and captures its output as masked lines. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { accessSync, constants, createWriteStream } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { isMainThread } from "node:worker_threads";
import { boundChild } from "./bounded-child.ts";
import { birthOf, type GroupId, signalGroup } from "./processes.ts";
import { redactor } from "./redaction.ts";
import { inTime } from "./waiting.ts";

type Output = "stdout" | "stderr";

export type ChildSpec = {
  name: string;
  command: string;
  args?: readonly string[];
  /** Added to this process's environment. Values of variables whose names sound secret are masked from then on. */
  env?: Record<string, string>;
  cwd?: string;
  /** `at-stdin-eof`: a program of ours, which exits when its stdin ends or the runner dies. `by-signal`: others. */
  ends: "at-stdin-eof" | "by-signal";
  endLast?: boolean;
  graceMs?: number;
  /** Whether the kernel kills a `by-signal` child when the runner dies (Linux with setpriv; default true). */
  deathSignal?: boolean;
  files?: Partial<Record<Output, string>>;
};

export type Started = Awaited<ReturnType<typeof startChild>>;

const SOUNDS_SECRET = /(?:SECRET|TOKEN|PASSWORD|_KEY)$/i;

let setprivWorks: boolean | undefined;
/** Tries setpriv once, because Busybox has one without this option. */
const hasSetpriv = (): boolean => {
  setprivWorks ??=
    process.platform === "linux" &&
    spawnSync("setpriv", ["--pdeathsig", "KILL", "--", "true"], { stdio: "ignore", timeout: 5_000 }).status === 0;
  return setprivWorks;
};

const isProgram = (command: string, cwd: string = "."): boolean => {
  const places = command.includes("/")
    ? [resolve(cwd, command)]
    : (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, command));
  return places.some((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
};

/** How many lines of both streams are kept for `waitForLine`, and how many of them an error message quotes. */
const LINES_KEPT = 400;
const LAST_LINES = 5;

type Said = { line: string; from: Output };

/** `ended`: resolves to the signal or exit code that ended the child. */
const captureOutput = (child: ChildProcess, { name, files = {} }: ChildSpec, ended: Promise<string>) => {
  const kept: Said[] = [];
  const waiting = new Set<(said: Said) => void>();
  for (const from of ["stdout", "stderr"] as const) {
    const path = files[from];
    const sink = path === undefined ? null : createWriteStream(path, { flags: "a", mode: 0o600 });
    // A full disk must not end the run in the middle of a fault; the line is kept in memory.
    sink?.on("error", () => {});
    const lines = redactor.lines((line) => {
      sink?.write(`${line}\n`);
      if (kept.push({ line, from }) > LINES_KEPT) kept.shift();
      for (const hear of waiting) hear({ line, from });
    });
    child[from]?.on("data", lines.push).on("close", () => {
      lines.end();
      sink?.end();
    });
  }
  return async (match: RegExp, { deadlineMs, from = "stdout" }: { deadlineMs: number; from?: Output }) => {
    const { promise: heard, resolve } = Promise.withResolvers<Said>();
    const hear = (said: Said): void => {
      if (said.from === from && match.test(said.line)) resolve(said);
    };
    waiting.add(hear);
    kept.forEach(hear);
    const found = await inTime(Promise.race([heard, ended]), deadlineMs).finally(() => waiting.delete(hear));
    if (typeof found === "object") return found.line;
    const what =
      found === "late" ? `did not say ${match} within ${deadlineMs} ms` : `ended (${found}) before it said ${match}`;
    const last = kept.slice(-LAST_LINES).map(({ line }) => line);
    const said = last.length === 0 ? "it said nothing" : `its last lines: ${last.join(" | ")}`;
    throw new Error(`${name} ${what}; ${said}`);
  };
};

/** Spawns the child and calls `onSpawned` in the same turn of the event loop, before anything else can fail. */
export const startChild = async (
  spec: ChildSpec,
  marked: Record<string, string> = {},
  onSpawned: (group: GroupId) => void = () => undefined,
) => {
  const { name, command, args = [], env = {} } = spec;
  for (const [variable, value] of Object.entries(env)) if (SOUNDS_SECRET.test(variable)) redactor.register(value);
  // Looked up here, because setpriv reports a missing program only by an exit code.
  if (!isProgram(command, spec.cwd)) throw new Error(`could not start ${name} (${command}): there is no such program`);
  // The kernel sends this signal when the thread that started the child ends, so only the main thread may ask for it.
  const guarded = spec.ends === "by-signal" && spec.deathSignal !== false && isMainThread && hasSetpriv();
  const [file, fileArgs] = guarded ? ["setpriv", ["--pdeathsig", "KILL", "--", command, ...args]] : [command, args];
  const child = spawn(file, fileArgs, {
    detached: true,
    stdio: [spec.ends === "at-stdin-eof" ? "pipe" : "ignore", "pipe", "pipe"],
    env: { ...process.env, ...env, ...marked },
    cwd: spec.cwd,
  });
  const { ended } = boundChild(child);
  const { pid } = child;
  if (pid === undefined) {
    const { error } = await ended;
    throw new Error(redactor.redact(`could not start ${name} (${command}): ${error}`));
  }
  const group: GroupId = { pid, pgid: pid, start: birthOf(pid) };
  child.stdin?.on("error", () => {});
  try {
    onSpawned(group);
  } catch (error) {
    // A child that cannot be journalled must not run.
    signalGroup(group, "SIGKILL");
    throw error;
  }
  const exited = ended.then(({ code, signal }) => ({ code, signal }));
  return {
    group,
    stdin: child.stdin,
    exited,
    hasExited: (): boolean => child.exitCode !== null || child.signalCode !== null,
    /** Finds earlier lines too. Rejects at the deadline, and when the child ends without the line. */
    waitForLine: captureOutput(
      child,
      spec,
      exited.then(({ code, signal }) => `${signal ?? code}`),
    ),
  };
};
