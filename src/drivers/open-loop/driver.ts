/** The open-loop driver: one process, or several that share the schedule. */
import { fileURLToPath } from "node:url";
import { countedOutcome } from "../../client/api-client.ts";
import type { CallLine, FoldLine } from "../../history/line.ts";
import { openBy } from "../../history/reason-codes.ts";
import type { HostFacts } from "../../history/run-document.ts";
import { boundChild, lastLines, NODE_ARGUMENTS, signalInWords, spawnChild } from "../../supervision/child.ts";
import { messageIn, readLines, unreadSentence } from "../../supervision/lines.ts";
import { ownRunMark } from "../../supervision/processes.ts";
import { clockBaseUs, wallUs } from "../../supervision/waiting.ts";
import { budgetShare, NOTHING_SPENT, type Spent, type Stopped } from "../../workload/budget.ts";
import { profileDurationS } from "../../workload/load-profiles.ts";
import { TIMEOUTS } from "../../workload/timeouts.ts";
import * as port from "../driver.ts";
import type { OpenLoopEnd, OpenLoopJob } from "./play-schedule.ts";

/**
 * Messages between the runner and the process, one JSON value per line. Everything reaches the process over its stdin,
 * credentials too.
 */
export type ToProcess =
  | { type: "job"; job: OpenLoopJob; clockBaseUs: number }
  /** `message`: why the value could not be read. */
  | { type: "secret"; n: number; value?: string; message?: string }
  /** Begin; `startUs` is the run time of arrival 0. */
  | { type: "go"; startUs: number }
  | { type: "stop" };

/** What the process has spent, by its own count, and why it stopped sending before its schedule ended. */
export type OpenLoopSpent = { spent: Spent; stopped: Stopped | null };

export type FromProcess =
  | CallLine
  | FoldLine
  | { type: "secret?"; n: number; ref: string; what: string }
  | { type: "forget"; ref: string }
  | { type: "ready" }
  | ({ type: "progress"; offered: number; done: number } & OpenLoopSpent)
  | ({ type: "end"; end: OpenLoopEnd; host: HostFacts; problems: port.Problem[] } & OpenLoopSpent)
  | { type: "failed"; message: string };

export type OpenLoopResult = OpenLoopSpent & {
  end: OpenLoopEnd | null;
  host: HostFacts | null;
  problems: port.Problem[];
};

type OpenLoopProgram = { path: string; silentMs: number };

type OpenLoopOptions = Pick<port.Drive, "secrets" | "signal" | "onLine" | "onFold" | "onSpawn"> & {
  job: OpenLoopJob;
  /** Called when the process has its sessions; resolves to the run time of arrival 0. */
  begin(): Promise<number>;
  onProgress?(progress: { offered: number; done: number }): void;
  program?: OpenLoopProgram;
};

/** `silentMs`: the longest silence before the process is ready; an `exec:` command may take 30 s. */
const PROGRAM: OpenLoopProgram = {
  path: fileURLToPath(new URL("./open-loop-process.ts", import.meta.url)),
  silentMs: 45_000,
};

/** Plays one generator's part of a schedule, in a process. Rejects only if the process cannot be registered. */
export const playOpenLoop = async ({ job, secrets, signal, program = PROGRAM, ...options }: OpenLoopOptions) => {
  // The environment is only the run's mark and Node's cache, so that no secret leaks and the user's shell cannot change the load.
  const child = spawnChild(process.execPath, [...NODE_ARGUMENTS, program.path], {
    env: ownRunMark(),
    stdio: ["pipe", "pipe", "pipe"],
    // Ctrl-C then reaches the runner only, which asks the driver to stop, so that calls can end.
    detached: true,
  });
  const bound = boundChild(child);
  const drainMs = job.drainMs ?? job.timeouts?.callMs ?? TIMEOUTS.callMs;
  const say = (message: ToProcess): void => {
    if (child.stdin.writable) child.stdin.write(`${JSON.stringify(message)}\n`);
  };
  child.stdin.on("error", () => undefined);
  await port.register(child, bound, options.onSpawn);
  const unspent: OpenLoopSpent = { spent: NOTHING_SPENT, stopped: null };
  const result: OpenLoopResult = { end: null, host: null, problems: [], ...unspent };
  let isReady = false;
  let unread = 0;
  let failure = "";
  const complaints = lastLines(child.stderr, 3);
  const go = (startUs: number): void => {
    if (signal.aborted) return;
    const leadMs = Math.max(0, (startUs + job.epochUs - wallUs()) / 1000);
    bound.due(leadMs + profileDurationS(job.profile) * 1000 + drainMs + port.END_LATE_MS, "end its schedule");
    say({ type: "go", startUs });
  };

  const hear: { [T in FromProcess["type"]]: (message: Extract<FromProcess, { type: T }>) => void } = {
    call: (line) => options.onLine(Object.assign(line, { outcome: countedOutcome(line.outcome) })),
    fold: (line) => options.onFold?.(line),
    "secret?": ({ n, ref, what }) =>
      void secrets.read(ref, what).then(
        (value) => say({ type: "secret", n, value }),
        (error: Error) => say({ type: "secret", n, message: error.message }),
      ),
    forget: ({ ref }) => secrets.forget(ref),
    ready: () => {
      isReady = true;
      if (!signal.aborted) bound.due(Number.POSITIVE_INFINITY, "begin");
      void options.begin().then(go);
    },
    progress: ({ spent, stopped, ...progress }) => {
      Object.assign(result, { spent, stopped });
      options.onProgress?.(progress);
    },
    end: ({ type: _type, ...ended }) => void Object.assign(result, ended),
    failed: ({ message }) => {
      failure = message;
    },
  };
  readLines(child.stdout, (line) => {
    try {
      const message = messageIn(line) as FromProcess;
      (hear[message.type] as (message: FromProcess) => void)(message);
    } catch {
      unread += 1;
    }
    if (!isReady && !signal.aborted) bound.due(program.silentMs, "get ready");
  });
  bound.due(program.silentMs, "get ready");
  port.stopWhen(signal, bound, drainMs, () => say({ type: "stop" }));
  say({ type: "job", job, clockBaseUs: clockBaseUs() });

  const { code, signal: endedBy, error, late } = await bound.ended;
  const exit = endedBy === null ? `code ${code}` : `signal ${signalInWords(endedBy)}`;
  const how = error ?? (late === null ? exit : `it did not ${late} in time`);
  const said = failure || complaints.join(" ");
  const early = `the open-loop driver ended before its schedule (${how})${said === "" ? "" : `: ${said}`}`;
  const unreadable = unreadSentence(unread, "the open-loop driver");
  if (unreadable !== null) result.problems.push({ ...openBy("not-recorded"), reason: unreadable });
  if (result.end === null) result.problems.push({ ...openBy("program-failed"), reason: early });
  return { ...result, hasFailed: result.end === null };
};

/** Combines several generators: the worst of the figures of each process. The host's figures are the same for all. */
const worstOf = (hosts: readonly HostFacts[]): HostFacts | null => {
  if (hosts[0] === undefined) return null;
  const worst = { ...hosts[0] };
  for (const name of ["event_loop_lag_ms_p99", "event_loop_lag_ms_max", "cpu_share", "descriptors_share"] as const) {
    const known = hosts.flatMap((host) => host[name] ?? []);
    worst[name] = known.length === 0 ? null : Math.max(...known);
  }
  return worst;
};

/** Time from when all processes are ready to the first arrival. */
const LEAD_US = 150_000;

/** Lets processes begin at one moment, `startUs` of the run, once all of them are ready. */
export const startTogether = (count: number, epochUs: number) => {
  const { promise: startUs, resolve } = Promise.withResolvers<number>();
  let waiting = count;
  const begin = (): Promise<number> => {
    waiting -= 1;
    if (waiting === 0) resolve(Math.round(wallUs() - epochUs + LEAD_US));
    return startUs;
  };
  return { startUs, begin };
};

export const openLoopBy =
  (program?: OpenLoopProgram): port.Driver =>
  async (drive, beside) => {
    const { job, budget, segments = 1 } = drive;
    const all = budget.left();
    const progress = Array.from({ length: segments }, () => ({ done: 0, offered: 0 }));
    const sum = <K extends string>(of: readonly Record<K, number>[], key: K): number =>
      of.reduce((total, one) => total + one[key], 0);
    const { begin, startUs: ready } = startTogether(segments, job.epochUs);
    void ready.then((us) => drive.onStart?.(us));
    const play = (index: number, signal: AbortSignal) =>
      playOpenLoop({
        ...{ ...drive, begin, program, signal },
        job: {
          ...job,
          budget: budgetShare(all, index, segments),
          stated: budget.stated,
          fold: drive.onFold === undefined ? undefined : true,
          segment: segments === 1 ? undefined : { index, of: segments },
        },
        onProgress: (now) => {
          progress[index] = now;
          const done = sum(progress, "done");
          drive.onProgress?.(`${done} calls done, ${sum(progress, "offered") - done} under way`);
        },
      });
    const results = await port.playParts(drive, play, beside && (() => ready.then(beside)));
    const ends = results.flatMap(({ end }) => (end === null ? [] : [end]));
    const startUs = Math.min(...ends.map((end) => end.startUs));
    const endUs = Math.max(...ends.map((end) => end.endUs));
    const left = { dropped: sum(ends, "dropped"), queued: sum(ends, "queued"), unmade: sum(ends, "unmade") };
    const lagMsP99 = Math.max(...ends.map(({ lagMs }) => lagMs.p99));
    return {
      problems: results.flatMap(({ problems }) => problems),
      isCutOff: ends.length < segments,
      notes: [],
      protocols: [...new Set(ends.flatMap(({ protocols = [] }) => protocols))].sort(),
      host: worstOf(results.flatMap(({ host }) => (host === null ? [] : [host]))),
      scheduledMs: ends.length === 0 ? 0 : (endUs - startUs) / 1000,
      startUs: ends.length === 0 ? undefined : startUs,
      counts: ends.length < segments ? undefined : { ...left, lagMsP99 },
    };
  };

export const driveOpenLoop: port.Driver = openLoopBy();
