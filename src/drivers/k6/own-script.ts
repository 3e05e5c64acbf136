/**
 * Runs a user's own k6 script as it is (`load --script FILE.ts -- <k6 arguments>`). It makes no history lines, since we do
 * not know its calls: what can be reported is k6's verdict on it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { redactor } from "../../supervision/redaction.ts";
import type { Problem } from "../open-loop/job.ts";
import { exitProblem } from "./k6-process.ts";

type K6ScriptOptions = {
  binary: string;
  script: string;
  /** The user's arguments, passed on unread. */
  args: readonly string[];
  /** What the script may read from `__ENV`, beside what the user's shell has. */
  environment?: Record<string, string>;
  onSpawn?(child: ChildProcess): void;
  /** What k6 and the script say, line by line and masked. */
  onSaid?(line: string): void;
};

/** Its own phone calls are off. */
export const runK6Script = ({
  binary,
  script,
  args,
  environment,
  onSpawn,
  onSaid,
}: K6ScriptOptions): Promise<Problem[]> =>
  new Promise((resolve) => {
    const child = spawn(binary, ["run", ...args, script], {
      env: { ...process.env, K6_NO_USAGE_REPORT: "true", K6_AUTO_EXTENSION_RESOLUTION: "false", ...environment },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    onSpawn?.(child);
    for (const stream of [child.stdout, child.stderr]) {
      const lines = redactor.lines((line) => onSaid?.(line));
      stream.on("data", lines.push).on("close", lines.end);
    }
    const over = (code: number | null, signal: NodeJS.Signals | null, errors: string[]): void => {
      const problem = exitProblem({ code, signal, errors, errorCount: errors.length, warnings: [] });
      resolve(problem === null ? [] : [problem]);
    };
    child.on("error", (error) => over(null, null, [error.message]));
    child.on("close", (code, signal) => over(code, signal, []));
  });
