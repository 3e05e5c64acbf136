/** One way to call every driver: a story under a profile in, lines and doubts out. */
import type { ChildProcess } from "node:child_process";
import type { CallLine } from "../history/line.ts";
import type { Secrets } from "../target/secrets.ts";
import { STORIES } from "../workload/catalogue.ts";
import { profileDurationS } from "../workload/load-profiles.ts";
import { type HostNotes, watchHost } from "./host-notes.ts";
import { runK6 } from "./k6/k6.ts";
import type { OpenLoopJob, Problem } from "./open-loop/job.ts";
import { startOpenLoop } from "./open-loop/open-loop.ts";

export type Drive = {
  job: OpenLoopJob;
  secrets: Secrets;
  onLine(line: CallLine): void;
  onProgress?(text: string): void;
  onSpawn?(child: ChildProcess): void;
  /** Of a folder that credentials are about to be put in. */
  onFolder?(path: string): void;
  signal: AbortSignal;
};

export type Driven = {
  problems: Problem[];
  notes: string[];
  scheduledMs: number;
};

/** Notes of the host that a reader must know before he believes a figure about time. */
const hostNotes = (stage: string, host: HostNotes | null): string[] => {
  if (host === null) return [];
  const notes: string[] = [];
  const lag = host.event_loop_lag_ms_p99;
  if (lag > 20) notes.push(`${stage}: the driver's event loop lagged ${lag.toFixed(0)} ms (p99)`);
  if ((host.steal_share ?? 0) > 0.05) {
    notes.push(`${stage}: the hypervisor took ${((host.steal_share ?? 0) * 100).toFixed(0)} % of the CPU`);
  }
  if ((host.listen_overflows ?? 0) > 0) notes.push(`${stage}: ${host.listen_overflows} accept-queue overflows`);
  if ((host.syn_retransmits ?? 0) > 0) notes.push(`${stage}: ${host.syn_retransmits} SYN retransmits`);
  return notes;
};

/** `until`, when given, ends the load early (an experiment decides when it is over). */
export const driveOpenLoop = async (
  drive: Drive,
  until?: (started: Promise<void>) => Promise<void>,
): Promise<Driven> => {
  const loop = startOpenLoop({
    job: drive.job,
    secrets: drive.secrets,
    onLine: drive.onLine,
    onProgress: ({ done, offered }) => drive.onProgress?.(`${done} of ${offered} calls done`),
    ...(drive.onSpawn === undefined ? {} : { onSpawn: drive.onSpawn }),
  });
  const stop = (): void => loop.stop();
  drive.signal.addEventListener("abort", stop, { once: true });
  const started = loop.ready.then(() => loop.go());
  // `result` tells why it was not ready.
  started.catch(() => undefined);
  try {
    if (until !== undefined) {
      await started.then(
        () => until(started),
        () => undefined,
      );
      loop.stop();
    }
    const result = await loop.result;
    return {
      problems: result.problems,
      notes: hostNotes(drive.job.stage, result.host),
      scheduledMs: result.end === null ? 0 : (result.end.endUs - result.end.startUs) / 1000,
    };
  } finally {
    drive.signal.removeEventListener("abort", stop);
  }
};

export type K6Drive = Drive & {
  k6Path: string | null;
  scenario: string;
  /** Where k6's summary is kept. */
  keepIn: string;
};

export const driveK6 = async (drive: K6Drive): Promise<Driven> => {
  const { job, k6Path } = drive;
  const story = STORIES.get(job.story);
  if (k6Path === null || story === undefined) {
    return {
      problems: [{ verdict: "inconclusive", reason: "k6 is not there" }],
      notes: [],
      scheduledMs: 0,
    };
  }
  const host = watchHost();
  let child: ChildProcess | undefined;
  const stop = (): void => void child?.kill("SIGTERM");
  drive.signal.addEventListener("abort", stop, { once: true });
  try {
    const { idPrefix, stage, seed, profile, target, view, epochUs } = job;
    const result = await runK6({
      ...{ binary: k6Path, script: drive.scenario, story, keepIn: drive.keepIn, secrets: drive.secrets },
      ...{ idPrefix, stage, seed, profile, target, view, epochUs, onLine: drive.onLine },
      onSpawn: (spawned) => {
        child = spawned;
        drive.onSpawn?.(spawned);
      },
      ...(drive.onFolder === undefined ? {} : { onFolder: drive.onFolder }),
    });
    return {
      problems: result.problems,
      notes: [...hostNotes(stage, host()), ...result.warnings.map((warning) => `${stage}: k6: ${warning}`)],
      scheduledMs: profileDurationS(profile) * 1000,
    };
  } finally {
    drive.signal.removeEventListener("abort", stop);
  }
};
