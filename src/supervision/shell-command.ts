/** A command of the target file's owner, run by the shell. */
import { type ChildProcess, spawn } from "node:child_process";
import { unmarked } from "./processes.ts";

type ShellCommand = {
  /** For the sentence when it fails: `heal command`. */
  what: string;
  /** The folder that it runs in (default: the runner's). */
  cwd?: string;
  /** Its environment (default: the runner's). */
  env?: NodeJS.ProcessEnv;
  /** Ends it, and what it started. */
  signal: AbortSignal;
  /** For supervision, in the turn in which it was started; it leads a group of its own. */
  onSpawn?(pid: number): void;
  /** What it writes, as it comes; `log` is its stderr. Not read where absent. */
  onOutput?(text: string, from: "output" | "log"): void;
};

/** The command ended, and not with 0. */
export class CommandFailedError extends Error {
  override name = "CommandFailedError";
  /** `null`: ended by a signal. */
  readonly code: number | null;
  constructor(message: string, code: number | null) {
    super(message);
    this.code = code;
  }
}

const KEPT = 300;
const LAST_WORDS_MS = 50;
/** How long output may be on its way after the end; what was left in the background may hold it open for ever. */
const REST_OF_OUTPUT_MS = 1_000;

const cutOff = ({ pid }: ChildProcess): void => {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // It ended in between.
  }
};

/**
 * Resolves when it ended with 0; else throws a sentence with what it said last. In a group of its own, so that a shell that
 * is cut off leaves nothing running. `exec:` before the command is left out.
 */
export const runShellCommand = (
  command: string,
  { what, cwd, env = process.env, signal, onSpawn, onOutput }: ShellCommand,
): Promise<void> =>
  new Promise((resolve, reject) => {
    const child = spawn("/bin/sh", ["-c", command.replace(/^exec:/, "")], {
      detached: true,
      stdio: ["ignore", onOutput === undefined ? "ignore" : "pipe", "pipe"],
      env: unmarked(env),
      ...(cwd === undefined ? {} : { cwd }),
    });
    if (child.pid !== undefined) onSpawn?.(child.pid);
    let said = "";
    child.stderr?.on("data", (chunk: Buffer) => {
      said = (said + chunk.toString()).slice(-KEPT);
      onOutput?.(chunk.toString(), "log");
    });
    child.stdout?.setEncoding("utf8").on("data", (text: string) => onOutput?.(text, "output"));
    const whole = new Promise<void>((read) => {
      if (child.stdout === null) read();
      child.stdout?.once("end", () => read());
    });
    const fail = (why: string, code: number | null = null): void =>
      reject(
        new CommandFailedError(`the ${what} failed (${why})${said.trim() === "" ? "" : `: ${said.trim()}`}`, code),
      );
    const tooLate = (): void => {
      cutOff(child);
      fail("not done in time");
    };
    if (signal.aborted) return tooLate();
    signal.addEventListener("abort", tooLate, { once: true });
    child.once("error", (error) => fail(error.message));
    // Not `close`: what the command left in the background may hold its output open.
    child.once("exit", (code, ended) => {
      signal.removeEventListener("abort", tooLate);
      if (code === 0) {
        const timer = setTimeout(resolve, REST_OF_OUTPUT_MS);
        whole.then(() => {
          clearTimeout(timer);
          resolve();
        });
        return;
      }
      // Its last words may still be on their way.
      setTimeout(() => fail(ended === null ? `exit code ${code}` : `ended by ${ended}`, code), LAST_WORDS_MS);
    });
  });
