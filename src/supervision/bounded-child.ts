/** A child process with a deadline, at which it is killed, with its group if it leads one. */
import { type ChildProcess, spawn } from "node:child_process";
import { unmarked } from "./processes.ts";
import { pause } from "./waiting.ts";

/** `late`: what the child did not do by its deadline; `null` if it was in time. */
type ChildEnd = Record<"error" | "late", string | null> & { code: number | null; signal: NodeJS.Signals | null };

export type BoundedChild = ReturnType<typeof boundChild>;

/** After the exit, `close` comes late if a grandchild holds the pipe. */
const REST_OF_OUTPUT_MS = 500;
/** A longer delay of Node's timers fires at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;
/** A process that the kernel cannot end is abandoned this long after SIGKILL. */
const KILL_MS = 2_000;

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

const KEPT_CHARS = 300;

/** Runs a command (without `exec:`). If it fails, throws an error with the last stderr; `cause` is the exit code. */
export const runShellCommand = async (command: string, how: ShellCommand): Promise<void> => {
  const { what, cwd, env = process.env, signal, onSpawn, onOutput } = how;
  const child = spawn("/bin/sh", ["-c", command.replace(/^exec:/, "")], {
    detached: true,
    stdio: ["ignore", onOutput === undefined ? "ignore" : "pipe", "pipe"],
    env: unmarked(env),
    cwd,
  });
  const { ended, kill } = boundChild(child);
  if (child.pid !== undefined) onSpawn?.(child.pid);
  let said = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-KEPT_CHARS);
    onOutput?.(text, "log");
  });
  child.stdout?.setEncoding("utf8").on("data", (text: string) => onOutput?.(text, "output"));
  const over = new AbortController();
  const failed = (why: string, code?: number | null): Error =>
    new Error(`the ${what} failed (${why})${said.trim() === "" ? "" : `: ${said.trim()}`}`, { cause: code });
  const tooLate = pause(TIMER_MS_MAX, AbortSignal.any([signal, over.signal])).then(() => null);
  const end = await Promise.race([ended, tooLate]).finally(() => over.abort());
  if (end === null) {
    kill();
    throw failed("not done in time");
  }
  const { code, signal: by, error } = end;
  if (error !== null) throw failed(error);
  if (code !== 0) throw failed(by === null ? `exit code ${code}` : `ended by ${by}`, code);
};
