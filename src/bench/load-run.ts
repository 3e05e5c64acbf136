/** `floodgate load` as users run it: a process of its own, its target in a file, its figures in the run folder. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunDocument } from "../history/run-document.ts";
import { REPOSITORY } from "../run/environment.ts";
import type { BenchRoom } from "./bench.ts";

const KEY = "FLOODGATE_BENCH_NULL";
/** Ends a run that hangs. */
const RUN_MS = 120_000;

/** A target file for a bare server, which looks at no key. Returns its path. */
export const writeTarget = ({ folder }: BenchRoom, url: string): string => {
  const file = join(mkdtempSync(join(folder, "target-")), "target.json");
  const target = {
    schema: "floodgate/target@1",
    name: "bare server",
    base_url: url,
    credentials: { server: { key: `env:${KEY}` } },
    permits: { load_max_rps: 1_000_000 },
  };
  writeFileSync(file, JSON.stringify(target));
  return file;
};

export const runLoad = async (
  { supervisor, folder }: BenchRoom,
  words: readonly string[],
  environment: Record<string, string> = {},
): Promise<RunDocument> => {
  const out = join(mkdtempSync(join(folder, "run-")), "run");
  const child = await supervisor.start({
    name: "load",
    command: process.execPath,
    args: [join(REPOSITORY, "src/cli/floodgate.mjs"), "load", ...words, "--out", out, "--quiet"],
    ends: "by-signal",
    env: { [KEY]: "svc_sk_live_bench", ...environment },
  });
  const late = setTimeout(() => void child.stop(), RUN_MS);
  await child.exited;
  clearTimeout(late);
  return JSON.parse(readFileSync(join(out, "run.json"), "utf8")) as RunDocument;
};

/** Of the first stage that has it; `NaN` where none has. */
export const figureOf = ({ measurements }: RunDocument, name: string): number =>
  measurements.find((one) => one.name === name)?.value ?? Number.NaN;
