/** Starts the open-loop driver's process and talks to it. */

import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { countedOutcome } from "../../client/call-line.ts";
import { wallUs } from "../../client/clock.ts";
import type { CallLine, FoldLine } from "../../history/line.ts";
import { boundChild } from "../../supervision/bounded-child.ts";
import { messageIn, readLines, unreadSentence } from "../../supervision/lines.ts";
import { runMark } from "../../supervision/processes.ts";
import { redact } from "../../supervision/redaction.ts";
import type { Secrets } from "../../target/secrets.ts";
import { NOTHING_SPENT, type Spent, type Stopped } from "../../workload/budget.ts";
import { profileDurationS } from "../../workload/load-profiles.ts";
import { TIMEOUTS } from "../../workload/timeouts.ts";
import type { Problem } from "../driver.ts";
import type { HostNotes } from "../host-notes.ts";
import type { FromProcess, OpenLoopEnd, OpenLoopJob, ToProcess } from "./job.ts";

export type OpenLoopResult = {
  end: OpenLoopEnd | null;
  host: HostNotes | null;
  clockErrorUs: number;
  spent: Spent;
  /** Why it sent nothing any more before its schedule ended. */
  stopped: Stopped | null;
  problems: Problem[];
};

export type OpenLoopProgram = { path: string; silentMs: number };

type OpenLoopOptions = {
  job: OpenLoopJob;
  secrets: Secrets;
  onLine(line: CallLine): void;
  onFold?(line: FoldLine): void;
  onProgress?(progress: Extract<FromProcess, { type: "progress" }>): void;
  onSpawn?(child: ChildProcess): void;
  program?: OpenLoopProgram;
};

export type OpenLoop = {
  /** The process has its sessions and waits for `go`; rejects when it could not get ready. */
  ready: Promise<void>;
  go(startUs?: number): void;
  /** No further arrivals; calls under way end, or the process does after the grace. */
  stop(graceMs?: number): void;
  kill(): void;
  result: Promise<OpenLoopResult>;
};

const STDERR_KEPT = 4_000;
/** Without a word before it is ready: longer than the slowest command behind an `exec:` may take. */
const PROGRAM: OpenLoopProgram = {
  path: fileURLToPath(new URL("./open-loop-process.ts", import.meta.url)),
  silentMs: 45_000,
};
const LATE_MS = 30_000;

export const startOpenLoop = (options: OpenLoopOptions): OpenLoop => {
  const { path, silentMs } = options.program ?? PROGRAM;
  // No arguments and no environment but the run's mark: nothing can leak, and the shell cannot change the load.
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", path], {
    env: runMark(),
    stdio: ["pipe", "pipe", "pipe"],
    // Ctrl-C reaches the runner's group only; the runner asks the driver to stop, so that calls can end.
    detached: true,
  });
  options.onSpawn?.(child);
  const bound = boundChild(child);
  const drainMs = options.job.drainMs ?? options.job.timeouts?.callMs ?? TIMEOUTS.callMs;
  let isReady = false;
  let unread = 0;
  const say = (message: ToProcess): void => {
    if (child.stdin.writable) child.stdin.write(`${JSON.stringify(message)}\n`);
  };
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
        message.outcome = countedOutcome(message.outcome);
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
        isReady = true;
        bound.due(Number.POSITIVE_INFINITY, "begin");
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
  readLines(child.stdout, (line) => {
    const message = messageIn(line) as FromProcess | null;
    try {
      if (message === null) unread += 1;
      else hear(message);
    } catch {
      unread += 1;
    }
    if (!isReady) bound.due(silentMs, "get ready");
  });

  const over = (how: string): void => {
    const unreadable = unreadSentence(unread, "the open-loop driver");
    if (unreadable !== null) result.problems.push({ verdict: "inconclusive", reason: unreadable });
    if (result.end === null) {
      const said = failure || redact(complaints.trim().split("\n").slice(-3).join(" "));
      const reason = `the open-loop driver ended before its schedule (${how})${said === "" ? "" : `: ${said}`}`;
      result.problems.push({ verdict: "inconclusive", reason });
    }
    // Without effect where it was ready.
    ready.reject(new Error(`the open-loop driver ended before it was ready (${how})`));
    finished.resolve(result);
  };
  void bound.ended.then(({ code, signal, error, late }) =>
    over(
      error ?? (late !== null ? `it did not ${late} in time` : signal === null ? `code ${code}` : `signal ${signal}`),
    ),
  );
  bound.due(silentMs, "get ready");
  say({ type: "job", job: options.job });

  return {
    ready: ready.promise,
    go: (startUs) => {
      const leadMs = startUs === undefined ? 0 : Math.max(0, (startUs + options.job.epochUs - wallUs()) / 1000);
      bound.due(leadMs + profileDurationS(options.job.profile) * 1000 + drainMs + LATE_MS, "end its schedule");
      say(startUs === undefined ? { type: "go" } : { type: "go", startUs });
    },
    stop: (graceMs = drainMs + LATE_MS) => {
      bound.due(graceMs, "stop");
      say({ type: "stop" });
    },
    kill: bound.kill,
    result: finished.promise,
  };
};
