/** The open-loop driver behind the port of all drivers: one process, or several that share the schedule. */
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { countedOutcome } from "../../client/call-line.ts";
import { wallUs } from "../../client/clock.ts";
import type { CallLine, FoldLine } from "../../history/line.ts";
import type { HostFacts } from "../../history/stage-host.ts";
import { boundChild } from "../../supervision/bounded-child.ts";
import { messageIn, readLines, unreadSentence } from "../../supervision/lines.ts";
import { runMark } from "../../supervision/processes.ts";
import { redact } from "../../supervision/redaction.ts";
import type { Secrets } from "../../target/secrets.ts";
import { budgetShare, endsAll, NOTHING_SPENT, type Spent, type Stopped } from "../../workload/budget.ts";
import { profileDurationS } from "../../workload/load-profiles.ts";
import { TIMEOUTS } from "../../workload/timeouts.ts";
import type { Driven, Driver, Problem } from "../driver.ts";
import type { FromProcess, OpenLoopEnd, OpenLoopJob, ToProcess } from "./process-pipe.ts";

export type OpenLoopResult = {
  end: OpenLoopEnd | null;
  host: HostFacts | null;
  clockErrorUs: number;
  spent: Spent;
  /** Why it sent nothing any more before its schedule ended. */
  stopped: Stopped | null;
  problems: Problem[];
};

type OpenLoopProgram = { path: string; silentMs: number };

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

/** Of several generators: the worst of what each did; what the host did is the same for all. */
const worstOf = (hosts: readonly HostFacts[]): HostFacts | null => {
  const [first, ...others] = hosts;
  if (first === undefined) return null;
  const worst = { ...first };
  for (const host of others) {
    for (const name of ["event_loop_lag_ms_p99", "event_loop_lag_ms_max", "cpu_share", "descriptors_share"] as const) {
      const [a, b] = [worst[name], host[name]];
      if (b !== null && (a === null || b > a)) worst[name] = b;
    }
  }
  return worst;
};

const countsOf = (ends: readonly OpenLoopEnd[]): Driven["counts"] => {
  const sum = (name: "dropped" | "queued" | "unmade"): number => ends.reduce((total, end) => total + end[name], 0);
  const lagMsP99 = Math.max(...ends.map(({ lagMs }) => lagMs.p99));
  return { dropped: sum("dropped"), queued: sum("queued"), unmade: sum("unmade"), lagMsP99 };
};

/** From the moment at which all processes are ready to the first arrival. */
const LEAD_US = 150_000;
/** How long the others may take to end their calls once one process of several has failed. */
const FAILED_GRACE_MS = 5_000;

export const openLoopBy =
  (program?: OpenLoopProgram): Driver =>
  async (drive, beside) => {
    const { job, secrets, budget, segments = 1, signal } = drive;
    const all = budget.left();
    const done = Array.from({ length: segments }, () => ({ done: 0, offered: 0 }));
    const start = (counts: (typeof done)[number], index: number): OpenLoop =>
      startOpenLoop({
        job: {
          ...job,
          budget: budgetShare(all, index, segments),
          stated: budget.stated,
          fold: drive.onFold === undefined ? undefined : true,
          segment: segments === 1 ? undefined : { index, of: segments },
        },
        secrets,
        onLine: drive.onLine,
        onFold: drive.onFold,
        onProgress: (progress) => {
          Object.assign(counts, { done: progress.done, offered: progress.offered });
          const sum = (key: "done" | "offered") => done.reduce((total, one) => total + one[key], 0);
          drive.onProgress?.(`${sum("done")} calls done, ${sum("offered") - sum("done")} under way`);
        },
        onSpawn: drive.onSpawn,
        program,
      });
    const loops: OpenLoop[] = [];
    const stop = (graceMs?: number): void => {
      for (const loop of loops) loop.stop(graceMs);
    };
    const asked = (): void => stop();
    signal.addEventListener("abort", asked, { once: true });
    try {
      // What cannot be put in hand ends those that were started before.
      for (const [index, counts] of done.entries()) loops.push(start(counts, index));
      if (signal.aborted) asked();
      for (const { result } of loops) {
        void result.then(({ stopped, end }) => {
          if (endsAll(stopped)) stop();
          // The others would go on with a part of the schedule, which nobody can judge.
          else if (end === null) stop(FAILED_GRACE_MS);
        });
      }
      const ready = await Promise.all(loops.map((loop) => loop.ready)).then(
        () => true,
        () => false,
      );
      if (!ready) stop(FAILED_GRACE_MS);
      if (ready) {
        const startUs = Math.round(wallUs() - job.epochUs + LEAD_US);
        for (const loop of loops) loop.go(startUs);
        drive.onStart?.(startUs);
      }
      if (ready && beside !== undefined) {
        // The load may end first, by its budget or a failure.
        await Promise.race([beside(), Promise.all(loops.map((loop) => loop.result))]);
        stop();
      }
      const results = await Promise.all(loops.map((loop) => loop.result));
      for (const { spent, stopped } of results) budget.absorb(spent ?? NOTHING_SPENT, stopped);
      const ends = results.flatMap(({ end }) => (end === null ? [] : [end]));
      const startUs = Math.min(...ends.map((end) => end.startUs));
      const endUs = Math.max(...ends.map((end) => end.endUs));
      return {
        problems: results.flatMap(({ problems }) => problems),
        notes: [],
        protocols: [...new Set(ends.flatMap(({ protocols = [] }) => protocols))].sort(),
        host: worstOf(results.flatMap(({ host }) => (host === null ? [] : [host]))),
        scheduledMs: ends.length === 0 ? 0 : (endUs - startUs) / 1000,
        startUs: ends.length === 0 ? undefined : startUs,
        counts: ends.length < loops.length ? undefined : countsOf(ends),
      };
    } finally {
      signal.removeEventListener("abort", asked);
      for (const loop of loops) loop.kill();
      await Promise.all(loops.map((loop) => loop.result));
    }
  };

export const driveOpenLoop: Driver = openLoopBy();
