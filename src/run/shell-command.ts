/** A command of the target file, run by the shell in the file's folder; what it says is masked. */
import { execFile } from "node:child_process";
import { redactor } from "../supervision/redaction.ts";

const OUTPUT_MAX_BYTES = 1 << 26;

export type ShellCommand = { command: string; cwd: string; limitMs: number; signal: AbortSignal };

/** What it wrote to both outputs. Rejects with a sentence when it does not end with 0 in time. */
export const runShellCommand = ({
  command,
  cwd,
  limitMs,
  signal,
}: ShellCommand): Promise<{ stdout: string; all: string }> =>
  new Promise((resolve, reject) => {
    const options = { cwd, timeout: limitMs, maxBuffer: OUTPUT_MAX_BYTES, signal };
    execFile("/bin/sh", ["-c", command.replace(/^exec:/, "")], options, (error, stdout, stderr) => {
      const all = redactor.redact(`${stdout}${stderr}`);
      if (error === null) return resolve({ stdout, all });
      const why = error.killed ? `it did not end within ${limitMs / 1000} s` : `it ended with ${error.code}`;
      reject(new Error(`${why}: ${all.trim().split("\n").slice(-3).join(" ")}`));
    });
  });
