/**
 * Child processes: one with a deadline, at which it is killed with its group; a shell command; and a part of the run in
 * its own group, known by id and start time, whose output is captured as masked lines.
 */
import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { accessSync, constants, createWriteStream } from "node:fs";
import { basename, delimiter, join } from "node:path";
import type { Readable } from "node:stream";
import { isMainThread } from "node:worker_threads";
import { birthOf, type GroupId, signalGroup, unmarked } from "./processes.ts";
import { redactor } from "./redaction.ts";
import { fileProblem } from "./user-file.ts";
import { inTime } from "./waiting.ts";

/** `late`: what the child did not do by its deadline; `null` if it was in time. */
type ChildEnd = Record<"error" | "late", string | null> & { code: number | null; signal: NodeJS.Signals | null };

export type BoundedChild = ReturnType<typeof boundChild>;

/** After the exit, `close` comes late if a grandchild holds the pipe. */
const REST_OF_OUTPUT_MS = 500;
/** A longer delay of Node's timers fires at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;
/** A process that the kernel cannot end is abandoned this long after SIGKILL. */
const KILL_MS = 2_000;

/** Node's arguments before a TypeScript program of this clone, whose modules then load in half of the time. */
export const NODE_ARGUMENTS: readonly string[] = [
  "--disable-warning=ExperimentalWarning",
  `--import=${new URL("./quick-imports.mjs", import.meta.url)}`,
];

const NO_PROCESS = "this user has as many processes and threads as it may (ulimit -u); end some, or raise the limit";

/**
 * Node's `spawn`, which throws if no pipe can be made because this process has as many files open as it may. Node
 * reports that by an event, and the child has no streams. Where the user has no process left, the event says so.
 */
export const spawnChild = ((file: string, args: readonly string[], options: SpawnOptions) => {
  const child = spawn(file, args, options);
  // The first listener, so that all others get the words.
  child.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EAGAIN") error.message += `: ${NO_PROCESS}`;
  });
  if ((child as { stdio?: unknown }).stdio !== undefined) return child;
  const error = Object.assign(new Error(), { code: "EMFILE" });
  throw Object.assign(error, { message: `could not start ${basename(file)}: ${fileProblem(error)?.sentence}` });
}) as typeof spawn;

export const boundChild = (child: ChildProcess) => {
  const { promise: ended, resolve } = Promise.withResolvers<ChildEnd>();
  const end: ChildEnd = { code: null, signal: null, error: null, late: null };
  let deadline: NodeJS.Timeout | undefined;
  let isOver = false;
  const over = (): void => {
    isOver = true;
    clearTimeout(deadline);
    resolve(end);
  };
  const kill = (): void => {
    if (isOver || child.pid === undefined) return;
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // The child leads no group, or is gone.
      child.kill("SIGKILL");
    }
  };
  child.on("error", (error) => {
    end.error = error.message;
    if (child.pid === undefined) over();
  });
  child.once("exit", (code, signal) => {
    Object.assign(end, { code, signal });
    clearTimeout(deadline);
    isOver = true;
    setTimeout(over, REST_OF_OUTPUT_MS).unref();
  });
  child.once("close", over);
  const tooLate = (what: string): void => {
    end.late = what;
    kill();
    deadline = setTimeout(over, KILL_MS);
  };
  return {
    /** Resolves when the child has ended, or was abandoned after its deadline. */
    ended,
    kill,
    /** Replaces the deadline; `what` completes "did not …". */
    due: (ms: number, what: string): void => {
      clearTimeout(deadline);
      if (!isOver) deadline = setTimeout(tooLate, Math.min(ms, TIMER_MS_MAX), what);
    },
  };
};

type ShellCommand = {
  what: string;
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  signal: AbortSignal;
  /** Called in the turn of the event loop that starts the shell, which leads its own group. */
  onSpawn?(pid: number): void;
  /** Gets the output as it comes; `log` is stderr. */
  onOutput?(text: string, from: "output" | "log"): void;
};

const BY_A_LIMIT: Partial<Record<NodeJS.Signals, string>> = {
  SIGKILL: "memory",
  SIGABRT: "memory or of threads (ulimit -u)",
};

/**
 * Names the signal that ended a process. The kernel ends the largest process by SIGKILL where memory is short; a
 * program ends itself by SIGABRT where it gets no memory or no thread.
 */
export const signalInWords = (signal: NodeJS.Signals): string => {
  const limit = BY_A_LIMIT[signal];
  return limit === undefined ? signal : `${signal}, as happens where a limit of ${limit} is reached`;
};

/**
 * Collects the last lines of a stream, without blank ones. Each is masked before anything is cut away, because what is
 * left of a cut secret cannot be recognized. A line without an end counts when the stream closes.
 */
export const lastLines = (from: Readable | null, most: number): string[] => {
  const kept: string[] = [];
  const { push, end } = redactor.lines((line) => {
    if (line.trim() !== "" && kept.push(line) > most) kept.shift();
  });
  from?.on("data", push).on("close", end);
  return kept;
};

const LAST_LINES = 5;
const SHOWN_CHARS = 300;

/** Runs a command (without `exec:`). If it fails, throws an error with the last stderr; `cause` is the exit code. */
export const runShellCommand = async (command: string, how: ShellCommand): Promise<void> => {
  const { what, cwd, env = process.env, signal, onSpawn, onOutput } = how;
  const child = spawnChild("/bin/sh", ["-c", command.replace(/^exec:/, "")], {
    detached: true,
    stdio: ["ignore", onOutput === undefined ? "ignore" : "pipe", "pipe"],
    env: unmarked(env),
    cwd,
  });
  const { ended, kill } = boundChild(child);
  if (child.pid !== undefined) onSpawn?.(child.pid);
  const said = lastLines(child.stderr, LAST_LINES);
  child.stderr?.setEncoding("utf8").on("data", (text: string) => onOutput?.(text, "log"));
  child.stdout?.setEncoding("utf8").on("data", (text: string) => onOutput?.(text, "output"));
  const failed = (why: string, code?: number | null): Error => {
    const words = said.length === 0 ? "" : `: ${said.join("\n").slice(-SHOWN_CHARS)}`;
    return new Error(`the ${what} failed (${why})${words}`, { cause: code });
  };
  const end = await inTime(ended, TIMER_MS_MAX, signal);
  if (end === "late") {
    kill();
    throw failed("not done in time");
  }
  const { code, signal: by, error } = end;
  if (error !== null) throw failed(error);
  if (code !== 0) throw failed(by === null ? `exit code ${code}` : `ended by ${by}`, code);
};

type Output = "stdout" | "stderr";

export type ChildSpec = {
  name: string;
  command: string;
  args?: readonly string[];
  /** Added to this process's environment. Values of variables whose names sound secret are masked from then on. */
  env?: Record<string, string>;
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

const isProgram = (command: string): boolean => {
  const places = command.includes("/")
    ? [command]
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

const LINES_KEPT = 400;

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
    const what = found === "late" ? `was not ready within ${deadlineMs} ms` : `ended (${found}) before it was ready`;
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
  if (!isProgram(command)) throw new Error(`could not start ${name} (${command}): there is no such program`);
  // The kernel sends this signal when the thread that started the child ends, so only the main thread may ask for it.
  const guarded = spec.ends === "by-signal" && spec.deathSignal !== false && isMainThread && hasSetpriv();
  const [file, fileArgs] = guarded ? ["setpriv", ["--pdeathsig", "KILL", "--", command, ...args]] : [command, args];
  const child = spawnChild(file, fileArgs, {
    detached: true,
    stdio: [spec.ends === "at-stdin-eof" ? "pipe" : "ignore", "pipe", "pipe"],
    env: { ...process.env, ...env, ...marked },
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
  const exitText = ended.then(({ code, signal }) => (signal === null ? `exit code ${code}` : signalInWords(signal)));
  return {
    group,
    stdin: child.stdin,
    exited: ended.then(({ code, signal }) => ({ code, signal })),
    hasExited: (): boolean => child.exitCode !== null || child.signalCode !== null,
    /** Finds earlier lines too. Rejects at the deadline, and when the child ends without the line. */
    waitForLine: captureOutput(child, spec, exitText),
  };
};
