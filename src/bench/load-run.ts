/** `floodgate load` as users run it: a process of its own, its target in a file, its figures in the run folder. */

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunDocument } from "../history/run-document.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import type { BenchRoom } from "./bench.ts";
import { type ProcessUse, watchProcesses } from "./process-use.ts";

const KEY = "FLOODGATE_BENCH_NULL";
/** Ends a run that hangs. */
const RUN_MS = 120_000;

/** A target file for a bare server, which looks at no key. Returns its path. */
export const writeTarget = ({ folder }: BenchRoom, url: string, limits?: Record<string, number>): string => {
  const file = join(mkdtempSync(join(folder, "target-")), "target.json");
  const target = {
    schema: "floodgate/target@1",
    name: "bare server",
    base_url: url,
    credentials: { server: { key: `env:${KEY}` } },
    permits: { load_max_rps: 1_000_000 },
    ...(limits === undefined ? {} : { limits }),
  };
  writeFileSync(file, JSON.stringify(target));
  return file;
};

export type LoadRun = {
  document: RunDocument;
  /** The run folder. */
  folder: string;
  /** By name: the runner (`floodgate`), k6, the server of the benchmark. */
  used: Map<string, ProcessUse>;
};

export const recordLoad = async (
  { supervisor, folder }: BenchRoom,
  words: readonly string[],
  environment: Record<string, string> = {},
): Promise<LoadRun> => {
  const out = join(mkdtempSync(join(folder, "run-")), "run");
  const child = await supervisor.start({
    name: "load",
    command: process.execPath,
    args: [join(REPOSITORY, "src/cli/floodgate.mjs"), "load", ...words, "--out", out, "--quiet"],
    ends: "by-signal",
    env: { [KEY]: "svc_sk_live_bench", ...environment },
  });
  const used = watchProcesses(process.pid, "k6");
  const late = setTimeout(() => void child.stop(), RUN_MS);
  await child.exited;
  clearTimeout(late);
  const document = JSON.parse(readFileSync(join(out, "run.json"), "utf8")) as RunDocument;
  return { document, folder: out, used: used() };
};

export const runLoad = async (...of: Parameters<typeof recordLoad>): Promise<RunDocument> =>
  (await recordLoad(...of)).document;

/** Of the first stage that has it; `NaN` where none has. */
export const figureOf = ({ measurements }: RunDocument, name: string): number =>
  measurements.find((one) => one.name === name)?.value ?? Number.NaN;
