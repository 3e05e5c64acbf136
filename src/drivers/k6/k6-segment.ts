/** One process of k6: the whole of a schedule or a segment of it, from the file it is handed to the last line that it prints. */
import { rmSync } from "node:fs";
import { open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import type { Protocol } from "../../history/run-document.ts";
import { writePrivateFile } from "../../supervision/private-file.ts";
import { type Budget, budgetShare, NOTHING_SPENT, type Spent, type Stopped } from "../../workload/budget.ts";
import type { HandOver } from "../../workload/handover.ts";
import { startTogetherMs } from "../../workload/k6-executor.ts";
import { profileDurationS } from "../../workload/load-profiles.ts";
import type { Problem } from "../driver.ts";
import type { K6Input, K6Run } from "./handover.ts";
import { exitProblem, k6Outputs, startK6 } from "./k6-process.ts";
import { createReader, problemsOf, readSummary, stoppedBy } from "./result.ts";

const LOOK_EVERY_MS = 50;
const CHUNK_BYTES = 1 << 18;

type Following = {
  /** To be called when nothing is written any more: reads what is left, and ends with the last line. */
  finish(): Promise<void>;
};

/** The file has to be there. What `onLine` throws ends the reading, and `finish` throws it. */
export const followLines = (path: string, onLine: (text: string) => void): Following => {
  let isOver = false;
  let wake = (): void => undefined;
  const read = async (): Promise<void> => {
    const file = await open(path, "r");
    try {
      const buffer = Buffer.alloc(CHUNK_BYTES);
      const decoder = new StringDecoder("utf8");
      let rest = "";
      for (;;) {
        // Asked before the read, so that what was written until the end is read after it.
        const wasOver = isOver;
        const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, null);
        if (bytesRead > 0) {
          const lines = (rest + decoder.write(buffer.subarray(0, bytesRead))).split("\n");
          rest = lines.pop() as string;
          for (const line of lines) onLine(line);
        } else if (wasOver) {
          if (rest !== "") onLine(rest);
          return;
        } else {
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, LOOK_EVERY_MS);
            wake = () => {
              clearTimeout(timer);
              resolve();
            };
          });
        }
      }
    } finally {
      await file.close();
    }
  };
  const reading = read();
  reading.catch(() => undefined);
  return {
    finish: () => {
      isOver = true;
      wake();
      return reading;
    },
  };
};

export type K6Played = {
  problems: Problem[];
  /** Iterations that k6 began, and those that it gave up when its time was over, by its own count; `null` without a summary. */
  iterations: number | null;
  dropped: number | null;
  /** Calls that were not sent, because the budget was spent or its stop condition met; they have no line. */
  unsent: number;
  stopped: Stopped | null;
  protocols: Protocol[];
  warnings: string[];
};

export type K6SegmentResult = K6Played & {
  hasFailed: boolean;
  most: number;
  spent: Spent;
};

/** How k6 is asked for its part: exact, with iterations in stripes, so that a call's number is that of the whole. */
const segmentArguments = (index: number, of: number): string[] => {
  if (of === 1) return [];
  const sequence = Array.from({ length: of + 1 }, (_, n) => `${n}/${of}`).join(",");
  return [`--execution-segment=${index}/${of}:${index + 1}/${of}`, `--execution-segment-sequence=${sequence}`];
};

const LATE_MS = 30_000;

/** Why `signal` was aborted: another process of the same schedule failed, so nobody can judge this one's calls. */
export const FAILED = "another segment failed";
const FAILED_GRACE_MS = 5_000;

export const runSegment = async (
  { setup, drive, story, timeouts, folder, segments, vus }: K6Run,
  index: number,
  /** `left`: what all segments together may spend. */
  { handOver, environment, left, signal }: K6Input & { left: Budget; signal: AbortSignal },
): Promise<K6SegmentResult> => {
  const { job, budget } = drive;
  const path = (name: string): string => join(folder, `${index}-${name}`);
  const handed: HandOver = {
    ...handOver,
    budget: budgetShare(left, index, segments),
    stated: budget.stated,
    summaryPath: path("summary.json"),
    printPath: path("printed.ndjson"),
    // A user who has k6 send its metrics elsewhere wants them all there.
    gapSamples: Object.keys(k6Outputs(process.env)).length > 0,
  };
  await writePrivateFile(path("handover.json"), JSON.stringify(handed));
  await writeFile(path("printed.ndjson"), "", { mode: 0o600 });
  const args = ["run", "--quiet", "--no-color", "--log-format=json"];
  const k6 = startK6(
    setup.k6Path,
    [...args, ...segmentArguments(index, segments), setup.scenario],
    { ...environment, FLOODGATE_HANDOVER: path("handover.json"), FLOODGATE_BUNDLE: path("scenario.js") },
    folder,
  );
  try {
    drive.onSpawn?.(k6.child);
  } catch (error) {
    // What cannot be put in hand must not run.
    k6.kill();
    await k6.exited;
    throw error;
  }
  const { callMs } = timeouts;
  const wholeMs = startTogetherMs(vus) + profileDurationS(job.profile) * 1000;
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
  const { seen, take } = createReader({ ...job, story }, drive.onLine);
  let isForgotten = false;
  const following = followLines(path("printed.ndjson"), (text) => {
    // k6 has read the file by now, for all VUs; a killed runner leaves no secrets behind.
    if (!isForgotten) rmSync(path("handover.json"), { force: true });
    isForgotten = true;
    stillComing();
    take(text);
  });
  const exit = await k6.exited;
  signal.removeEventListener("abort", stop);
  await following.finish();
  const summary = await readSummary(path("summary.json"));
  if (setup.keepIn !== undefined && summary !== null) {
    const name = segments === 1 ? job.stage : `${job.stage}-${index + 1}-of-${segments}`;
    await writeFile(join(setup.keepIn, `${name}.json`), await readFile(path("summary.json")));
  }
  const { end } = seen;
  return {
    hasFailed: !signal.aborted && (end?.stopped ?? null) === null && exitProblem(exit) !== null,
    problems: problemsOf({ exit, summary, seen }),
    iterations: summary?.iterations ?? null,
    dropped: summary?.dropped ?? null,
    unsent: end?.unsent ?? 0,
    stopped: stoppedBy(seen),
    most: end?.most ?? 0,
    protocols: [...(end?.http1 ? (["h1"] as const) : []), ...(end?.http2 ? (["h2"] as const) : [])],
    // A k6 that was killed has not said it: then every line is a request.
    spent: end?.spent ?? { ...NOTHING_SPENT, requests: seen.lines },
    warnings: exit.warnings,
  };
};
