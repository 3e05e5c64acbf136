/**
 * Runs one story by k6, with its scenario file. Secrets reach k6 in a file that only its owner may read and that is gone
 * afterwards; calls come back as lines that the scenario prints to a file. That way out was measured: at 2,000 calls per
 * second with 600 bytes each none of 10,002 lines was lost.
 */

import type { ChildProcess } from "node:child_process";
import { rmSync } from "node:fs";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRunClock } from "../../client/clock.ts";
import { TIMEOUTS, type Timeouts } from "../../client/send-request.ts";
import { maskSecrets } from "../../contract/credentials.ts";
import type { CallLine } from "../../history/line.ts";
import type { Secrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { type Arrivals, countArrivals } from "../../workload/arrivals.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { HandOver } from "../../workload/handover.ts";
import { executorFor, restMs, vusFor } from "../../workload/k6-executor.ts";
import { createLease, type LeaseKeeper, NOTHING_SPENT } from "../../workload/lease.ts";
import type { Profile } from "../../workload/load-profiles.ts";
import type { Story } from "../../workload/story.ts";
import { leaseShare } from "../lease-share.ts";
import type { Problem } from "../open-loop/job.ts";
import { followLines } from "./follow-lines.ts";
import { collectHandOver, type HandedOver } from "./handover.ts";
import { startK6 } from "./k6-process.ts";
import { createReader, problemsOf, readSummary, stoppedBy } from "./result.ts";

export type K6Options = {
  /** Path of the k6 binary that has k6/x/sse. */
  binary: string;
  /** The scenario file, e.g. `scenarios/smoke.ts`. */
  script: string;
  story: Story;
  stage: string;
  idPrefix: string;
  seed: number;
  profile: Profile;
  arrivals: Arrivals;
  target: Target;
  view: TargetView;
  secrets: Secrets;
  /** When the run began, by `wallUs`. */
  epochUs: number;
  firstCall?: number;
  /** When the first arrival is due, microseconds since 1970; absent: when k6 is ready. */
  startUs?: number;
  segment?: { index: number; of: number };
  vus?: number;
  timeouts?: Partial<Timeouts>;
  /** What may be spent and how fast, of all segments together; what k6 spends of it is added to it. Not bounded where absent. */
  lease?: LeaseKeeper;
  /** Ends the load in order: nothing more is sent, and what is under way comes to its end. */
  signal?: AbortSignal;
  /** Where k6's summary and what it printed are kept (the run folder's `k6/`); not kept without it. */
  keepIn?: string;
  /** Called as calls end, while k6 runs. */
  onLine(line: CallLine): void;
  onSpawn?(child: ChildProcess): void;
  /** Told of the folder that credentials are about to be put in; it is removed at the end. */
  onFolder?(path: string): void;
};

export type K6Result = {
  problems: Problem[];
  /** Iterations that k6 began, and those that it gave up when its time was over, by its own count; `null` without a summary. */
  iterations: number | null;
  dropped: number | null;
  lines: number;
  /** Calls that were not sent, because the lease was spent or its stop condition met; they have no line. */
  unsent: number;
  /** Why the lease let nothing leave any more, as a sentence. */
  stopped: string | null;
  warnings: string[];
};

export const runK6 = async (options: K6Options): Promise<K6Result> => {
  const { profile, view, story } = options;
  const timeouts: Timeouts = { ...TIMEOUTS, ...options.timeouts };
  const folder = await mkdtemp(join(tmpdir(), "floodgate-k6-"));
  options.onFolder?.(folder);
  await chmod(folder, 0o700);
  const path = (name: string): string => join(folder, name);
  const firstCall = options.firstCall ?? 0;
  let lines = 0;
  const onLine = (line: CallLine): void => {
    lines += 1;
    options.onLine(line);
  };
  try {
    const { index, of } = options.segment ?? { index: 0, of: 1 };
    const lease = options.lease ?? createLease({});
    const clock = createRunClock(options.epochUs);
    let collected: HandedOver;
    try {
      collected = await collectHandOver({ ...options, clock, timeouts, onLine, folder, lease });
    } catch (error) {
      const reason = `nothing could be handed to k6: ${maskSecrets(error instanceof Error ? error.message : String(error))}`;
      return {
        ...{ problems: [{ verdict: "inconclusive", reason }], iterations: null, dropped: null, lines, warnings: [] },
        ...{ unsent: 0, stopped: lease.stopped },
      };
    }
    const { handOver, environment } = collected;
    const arrivals = countArrivals(profile, options.arrivals, options.seed);
    if (arrivals === 0) {
      const problems: Problem[] = [{ verdict: "inconclusive", reason: "the schedule had no arrivals" }];
      return { ...{ problems, iterations: 0, dropped: 0, lines, unsent: 0, stopped: null }, warnings: [] };
    }
    const executor = executorFor({
      ...{ profile, arrivals, gracefulStopMs: timeouts.callMs },
      vus: options.vus ?? vusFor(profile, view.limits, restMs(story, options.seed, view)),
    });
    const { startUs } = options;
    const { momentsUs, ...bare } = profile;
    if (momentsUs !== undefined) await writeFile(path("moments.json"), JSON.stringify(momentsUs));
    const whole: HandOver = {
      ...handOver,
      firstCall,
      schedule: {
        ...{ profile: bare, arrivals: options.arrivals },
        ...(startUs === undefined ? {} : { startUs }),
        ...(momentsUs === undefined ? {} : { momentsPath: path("moments.json") }),
      },
      lease: leaseShare(lease.left(), index, of),
      summaryPath: path("summary.json"),
      options: { ...handOver.options, scenarios: { [story.name.replaceAll("-", "_")]: executor } },
    };
    await writeFile(path("handover.json"), JSON.stringify(whole), { mode: 0o600 });
    await writeFile(path("printed.ndjson"), "", { mode: 0o600 });
    const segment = [`--execution-segment=${index}/${of}:${index + 1}/${of}`];
    segment.push(`--execution-segment-sequence=${Array.from({ length: of + 1 }, (_, n) => `${n}/${of}`).join(",")}`);
    const args = ["run", "--quiet", "--no-color", "--log-format=json", `--console-output=${path("printed.ndjson")}`];
    const handed = { ...environment, FLOODGATE_HANDOVER: path("handover.json") };
    const k6 = startK6(options.binary, [...args, ...(of > 1 ? segment : []), options.script], handed, folder);
    options.onSpawn?.(k6.child);
    const stop = (): void => void k6.child.kill("SIGUSR1");
    options.signal?.addEventListener("abort", stop, { once: true });
    if (options.signal?.aborted === true) stop();
    const { seen, take } = createReader({ ...options, firstCall }, onLine);
    let isForgotten = false;
    const following = followLines(path("printed.ndjson"), (text) => {
      // k6 has read the file by now, for all VUs, and a runner that is killed meanwhile leaves none behind.
      if (!isForgotten) rmSync(path("handover.json"), { force: true });
      isForgotten = true;
      take(text);
    });
    const exit = await k6.exited;
    options.signal?.removeEventListener("abort", stop);
    await following.finish();
    const summary = await readSummary(path("summary.json"));
    if (options.keepIn !== undefined && summary !== null) {
      await writeFile(join(options.keepIn, `${options.stage}.json`), await readFile(path("summary.json")));
    }
    const stopped = stoppedBy(seen);
    // A k6 that was killed has not said it: then every line is a request.
    lease.absorb(seen.end?.spent ?? { ...NOTHING_SPENT, requests: seen.lines }, stopped);
    return {
      problems: problemsOf({ exit, summary, seen }),
      iterations: summary?.iterations ?? null,
      dropped: summary?.dropped ?? null,
      lines,
      unsent: seen.end?.unsent ?? 0,
      stopped,
      warnings: exit.warnings,
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};
