/** A command of the target file's owner, run by the shell. */
import { spawn } from "node:child_process";
import { boundChild } from "./bounded-child.ts";
import { unmarked } from "./processes.ts";

type ShellCommand = {
  what: string;
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  signal: AbortSignal;
  /** For supervision, in the turn in which it was started; it leads a group of its own. */
  onSpawn?(pid: number): void;
  /** What it writes, as it comes; `log` is its stderr. Not read where absent. */
  onOutput?(text: string, from: "output" | "log"): void;
};

export class CommandFailedError extends Error {
  override name = "CommandFailedError";
  readonly code: number | null;
  constructor(message: string, code: number | null) {
    super(message);
    this.code = code;
  }
}

const KEPT_CHARS = 300;

/**
 * Resolves when it exits with 0; else throws a sentence with its last output. It leads a group, so a cut-off shell
 * leaves nothing running. `exec:` before the command is left out.
 */
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
  const { promise: tooLate, reject } = Promise.withResolvers<never>();
  const failed = (why: string, code: number | null = null): CommandFailedError =>
    new CommandFailedError(`the ${what} failed (${why})${said.trim() === "" ? "" : `: ${said.trim()}`}`, code);
  const cutOff = (): void => {
    kill();
    reject(failed("not done in time"));
  };
  if (signal.aborted) cutOff();
  signal.addEventListener("abort", cutOff, { once: true });
  try {
    const { code, signal: by, error } = await Promise.race([ended, tooLate]);
    if (error !== null) throw failed(error);
    if (code !== 0) throw failed(by === null ? `exit code ${code}` : `ended by ${by}`, code);
  } finally {
    signal.removeEventListener("abort", cutOff);
  }
};
