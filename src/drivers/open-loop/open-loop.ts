/**
 * Starts the open-loop driver's process and speaks with it. The caller gets lines as they come, and at the end what was
 * offered, what the host did meanwhile and what puts the result in doubt.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { wallUs } from "../../client/clock.ts";
import { maskSecrets } from "../../contract/credentials.ts";
import type { CallLine, FoldLine } from "../../history/line.ts";
import type { Secrets } from "../../target/secrets.ts";
import { NOTHING_SPENT, type Spent } from "../../workload/lease.ts";
import type { HostNotes } from "../host-notes.ts";
import type { FromProcess, OpenLoopEnd, OpenLoopJob, Problem, ToProcess } from "./job.ts";

export type OpenLoopResult = {
  end: OpenLoopEnd | null;
  host: HostNotes | null;
  clockErrorUs: number;
  spent: Spent;
  /** Why it sent nothing any more before its schedule ended, as a sentence. */
  stopped: string | null;
  problems: Problem[];
};

type OpenLoopOptions = {
  job: OpenLoopJob;
  secrets: Secrets;
  onLine(line: CallLine): void;
  /** Of a job that folds. */
  onFold?(line: FoldLine): void;
  onProgress?(progress: Extract<FromProcess, { type: "progress" }>): void;
  /** Given the child as soon as it runs, for supervision. */
  onSpawn?(child: ChildProcess): void;
};

export type OpenLoop = {
  /** The process has its sessions and waits for `go`; rejects when it could not get ready. */
  ready: Promise<void>;
  go(startUs?: number): void;
  /** No further arrivals; calls under way end. */
  stop(): void;
  /** Ends the process at once. */
  kill(): void;
  result: Promise<OpenLoopResult>;
};

const PROCESS = fileURLToPath(new URL("./open-loop-process.ts", import.meta.url));
const STDERR_KEPT = 4_000;

export const startOpenLoop = (options: OpenLoopOptions): OpenLoop => {
  // No arguments and no environment: what is not there cannot leak, and nothing of the shell changes the load.
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", PROCESS], {
    env: {},
    stdio: ["pipe", "pipe", "pipe"],
    // A Ctrl-C goes to the runner's whole group; the runner asks the driver to stop, so that it can finish its calls.
    detached: true,
  });
  options.onSpawn?.(child);
  const say = (message: ToProcess): void => {
    if (child.stdin.writable) child.stdin.write(`${JSON.stringify(message)}\n`);
  };
  // A process that died is reported by `result`, not by its pipe.
  child.stdin.on("error", () => undefined);
  const result: OpenLoopResult = {
    end: null,
    host: null,
    clockErrorUs: 0,
    problems: [],
    spent: { ...NOTHING_SPENT },
    stopped: null,
  };
  const ready = Promise.withResolvers<void>();
  const finished = Promise.withResolvers<OpenLoopResult>();
  ready.promise.catch(() => undefined);
  let failure = "";
  let complaints = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complaints = (complaints + text).slice(-STDERR_KEPT);
  });

  const answerSecret = async (n: number, ref: string, what: string): Promise<void> => {
    try {
      say({ type: "secret", n, value: await options.secrets.read(ref, what) });
    } catch (error) {
      say({ type: "no-secret", n, message: error instanceof Error ? error.message : String(error) });
    }
  };

  const hear = (message: FromProcess): void => {
    switch (message.type) {
      case "call":
        options.onLine(message);
        break;
      case "fold":
        options.onFold?.(message);
        break;
      case "ping":
        say({ type: "pong", n: message.n, atUs: wallUs() });
        break;
      case "secret?":
        void answerSecret(message.n, message.ref, message.what);
        break;
      case "forget":
        options.secrets.forget(message.ref);
        break;
      case "ready":
        result.clockErrorUs = message.clockErrorUs;
        ready.resolve();
        break;
      case "progress":
        options.onProgress?.(message);
        break;
      case "problem":
        {
          const { type: _type, ...problem } = message;
          result.problems.push(problem);
        }
        break;
      case "spent":
        result.spent = message.spent;
        result.stopped = message.stopped;
        break;
      case "host": {
        const { type: _type, ...host } = message;
        result.host = host;
        break;
      }
      case "end": {
        const { type: _type, ...end } = message;
        result.end = end;
        break;
      }
      case "failed":
        failure = message.message;
        break;
    }
  };
  const lines = createInterface({ input: child.stdout });
  lines.on("line", (line) => hear(JSON.parse(line) as FromProcess));

  const over = (how: string): void => {
    if (result.end === null) {
      const said = failure || maskSecrets(complaints.trim().split("\n").slice(-3).join(" "));
      const reason = `the open-loop driver ended before its schedule (${how})${said === "" ? "" : `: ${said}`}`;
      result.problems.push({ verdict: "inconclusive", reason });
      ready.reject(new Error(reason));
    }
    finished.resolve(result);
  };
  child.on("error", (error) => over(error.message));
  // `close` comes after the last line has been read.
  child.on("close", (code, signal) => over(signal === null ? `code ${code}` : `signal ${signal}`));
  say({ type: "job", job: options.job });

  return {
    ready: ready.promise,
    go: (startUs) => say(startUs === undefined ? { type: "go" } : { type: "go", startUs }),
    stop: () => say({ type: "stop" }),
    kill: () => {
      child.kill("SIGKILL");
    },
    result: finished.promise,
  };
};
