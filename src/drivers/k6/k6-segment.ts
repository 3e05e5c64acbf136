/** One process of k6: the whole of a schedule or a segment of it, from the file it is handed to the last line that it prints. */

import type { ChildProcess } from "node:child_process";
import { rmSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { CallLine } from "../../history/line.ts";
import type { Protocol } from "../../history/run-document.ts";
import { writePrivateFile } from "../../supervision/private-file.ts";
import { type Budget, budgetShare, NOTHING_SPENT, type Spent } from "../../workload/budget.ts";
import type { HandOver } from "../../workload/handover.ts";
import { startTogetherMs } from "../../workload/k6-executor.ts";
import { profileDurationS } from "../../workload/load-profiles.ts";
import type { Problem } from "../driver.ts";
import { followLines } from "./follow-lines.ts";
import { k6Outputs } from "./k6-outputs.ts";
import { exitProblem, startK6 } from "./k6-process.ts";
import type { Reading } from "./lines.ts";
import { createReader, problemsOf, readSummary, stoppedBy } from "./result.ts";

export type K6Segment = {
  index: number;
  of: number;
  binary: string;
  script: string;
  /** A folder that only its owner may read. */
  folder: string;
  /** VUs of all segments, which take their time to be made. */
  vus: number;
  handOver: Omit<HandOver, "summaryPath" | "printPath" | "budget">;
  environment: Record<string, string>;
  /** What all segments together may spend, and what the target file states. */
  budget: Budget;
  stated: Budget;
  reading: Reading;
  /** Where its summary is kept; not kept without it. */
  keepAs?: string;
  signal: AbortSignal;
  onLine(line: CallLine): void;
  onSpawn?(child: ChildProcess): void;
};

export type K6SegmentResult = {
  /** It did not play its part of the schedule. */
  hasFailed: boolean;
  problems: Problem[];
  iterations: number | null;
  dropped: number | null;
  unsent: number;
  stopped: string | null;
  /** Calls that were under way at once, at most. */
  most: number;
  protocols: Protocol[];
  spent: Spent;
  warnings: string[];
};

/** How k6 is asked for its part: exact, with iterations in stripes, so that a call's number is that of the whole. */
const segmentArguments = (index: number, of: number): string[] => {
  if (of === 1) return [];
  const sequence = Array.from({ length: of + 1 }, (_, n) => `${n}/${of}`).join(",");
  return [`--execution-segment=${index}/${of}:${index + 1}/${of}`, `--execution-segment-sequence=${sequence}`];
};

/** How long it may be silent beyond the time-out of a call. */
const LATE_MS = 30_000;

/** Why `signal` was aborted: another process of the same schedule failed, so nobody can judge this one's calls. */
export const FAILED = "another segment failed";
/** How long calls under way may take then. */
const FAILED_GRACE_MS = 5_000;

export const runSegment = async (segment: K6Segment): Promise<K6SegmentResult> => {
  const { index, of, folder, stated, signal } = segment;
  const path = (name: string): string => join(folder, `${index}-${name}`);
  const handed: HandOver = {
    ...segment.handOver,
    budget: budgetShare(segment.budget, index, of),
    summaryPath: path("summary.json"),
    printPath: path("printed.ndjson"),
    // A user who has k6 send its metrics elsewhere wants them all there.
    gapSamples: Object.keys(k6Outputs(process.env)).length > 0,
  };
  await writePrivateFile(path("handover.json"), JSON.stringify(handed));
  await writeFile(path("printed.ndjson"), "", { mode: 0o600 });
  const args = ["run", "--quiet", "--no-color", "--log-format=json", `--console-output=${path("printed.ndjson")}`];
  const k6 = startK6(
    segment.binary,
    [...args, ...segmentArguments(index, of), segment.script],
    { ...segment.environment, FLOODGATE_HANDOVER: path("handover.json"), FLOODGATE_BUNDLE: path("scenario.js") },
    folder,
  );
  segment.onSpawn?.(k6.child);
  const { callMs } = segment.handOver.timeouts;
  const wholeMs = startTogetherMs(segment.vus) + profileDurationS(segment.handOver.schedule.profile) * 1000;
  const began = performance.now();
  /** A line comes whenever a call ends, and no call takes longer than its time-out. */
  const stillComing = (): void => {
    if (!signal.aborted) k6.due(Math.max(0, wholeMs - (performance.now() - began)) + callMs + LATE_MS, "end");
  };
  const stop = (): void => {
    k6.due(signal.reason === FAILED ? FAILED_GRACE_MS : callMs + LATE_MS, "stop");
    k6.child.kill("SIGUSR1");
  };
  stillComing();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  const { seen, take } = createReader(segment.reading, segment.onLine);
  let isForgotten = false;
  const following = followLines(path("printed.ndjson"), (text) => {
    // k6 has read the file by now, for all VUs, and a runner that is killed meanwhile leaves none behind.
    if (!isForgotten) rmSync(path("handover.json"), { force: true });
    isForgotten = true;
    stillComing();
    take(text);
  });
  const exit = await k6.exited;
  signal.removeEventListener("abort", stop);
  await following.finish();
  const summary = await readSummary(path("summary.json"));
  if (segment.keepAs !== undefined && summary !== null) {
    await writeFile(segment.keepAs, await readFile(path("summary.json")));
  }
  return {
    // What it says to a signal of ours is no failure of its own.
    hasFailed: !signal.aborted && (seen.end?.stopped ?? null) === null && exitProblem(exit) !== null,
    problems: problemsOf({ exit, summary, seen, stated }),
    iterations: summary?.iterations ?? null,
    dropped: summary?.dropped ?? null,
    unsent: seen.end?.unsent ?? 0,
    stopped: stoppedBy(seen, stated),
    most: seen.end?.most ?? 0,
    protocols: [...(seen.end?.http1 ? (["h1"] as const) : []), ...(seen.end?.http2 ? (["h2"] as const) : [])],
    // A k6 that was killed has not said it: then every line is a request.
    spent: seen.end?.spent ?? { ...NOTHING_SPENT, requests: seen.lines },
    warnings: exit.warnings,
  };
};
