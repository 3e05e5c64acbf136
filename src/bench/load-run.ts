/** `floodgate load` as users run it: a process of its own, its target in a file, its figures in the run folder. */

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunDocument } from "../history/run-document.ts";
import { known } from "../history/statistics/counts.ts";
import { sumOf } from "../history/statistics/statistics.ts";
import { treeOf } from "../stages/machine-use.ts";
import { readProc, statsHere, TICKS_PER_S } from "../supervision/processes.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import { type BenchRoom, watchHost } from "./comparison.ts";

/** `cores`: average while k6 ran; `rssBytes`: the peak. */
type ProcessUse = { cores: number; rssBytes: number };

const EVERY_MS = 200;
/** k6 counts from this look on; before, it reads its scripts. */
const BEGUN_LOOKS = 10;

/** The script that a node process runs; the name of the command for all others. */
const nameOf = (pid: number): string => {
  const script = /([\w-]+)\.(?:ts|mjs)/.exec(readProc(`/proc/${pid}/cmdline`) ?? "")?.[1];
  const command = readProc(`/proc/${pid}/comm`)?.trim() ?? "";
  return command.startsWith("node") ? (script ?? command) : command;
};

const rssBytesOf = (pid: number): number =>
  1024 * Number(/^VmRSS:\s+(\d+)/m.exec(readProc(`/proc/${pid}/status`) ?? "")?.[1] ?? 0);

/** Watches this process and its descendants by name. The returned function ends that; cores count only while k6 runs. */
const watchProcesses = (): (() => Map<string, ProcessUse>) => {
  const seen = new Map<number, { looks: number; ticks: number }>();
  const used = new Map<string, { ticks: number; rssBytes: number }>();
  let busyS = 0;
  const look = (): void => {
    const stats = statsHere();
    const now = [...treeOf(process.pid, stats)].map((pid) => {
      const ticks = stats.get(pid)?.ticks ?? 0;
      const was = seen.get(pid) ?? { looks: 0, ticks };
      seen.set(pid, { looks: was.looks + 1, ticks });
      // Read anew: a process that has just been forked has its parent's name.
      const name = nameOf(pid);
      const isBusy = name === "k6" && was.looks >= BEGUN_LOOKS;
      return { name, isBusy, ticks: ticks - was.ticks, rssBytes: rssBytesOf(pid) };
    });
    const isBusy = now.some((one) => one.isBusy);
    if (isBusy) busyS += EVERY_MS / 1000;
    for (const [name, same] of Map.groupBy(now, (one) => one.name)) {
      const use = known(used, name, () => ({ ticks: 0, rssBytes: 0 }));
      if (isBusy) use.ticks += sumOf(same.map(({ ticks }) => ticks));
      use.rssBytes = Math.max(use.rssBytes, sumOf(same.map(({ rssBytes }) => rssBytes)));
    }
  };
  const timer = setInterval(look, EVERY_MS);
  return () => {
    clearInterval(timer);
    const cores = (ticks: number): number => ticks / TICKS_PER_S / busyS;
    return new Map([...used].map(([name, { ticks, rssBytes }]) => [name, { cores: cores(ticks), rssBytes }]));
  };
};

const KEY = "FLOODGATE_BENCH_NULL";
const RUN_MS = 600_000;

/** Writes a target file for a bare server, which checks no key, and returns its path. */
export const writeTarget = ({ folder }: BenchRoom, url: string, limits?: Record<string, number>): string => {
  const file = join(mkdtempSync(join(folder, "target-")), "target.json");
  const target = {
    ...{ schema: "floodgate/target@1", name: "bare server", base_url: url },
    credentials: { server: { key: `env:${KEY}` } },
    permits: { load_max_rps: 1_000_000 },
    limits,
  };
  writeFileSync(file, JSON.stringify(target));
  return file;
};

/** `used`: by name, of the runner (`floodgate`), k6 and the benchmark's server. `disturbances`: by other programs. */
type LoadRun = { document: RunDocument; folder: string; used: Map<string, ProcessUse>; disturbances: string[] };

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
  const [used, disturbed] = [watchProcesses(), watchHost()];
  const late = setTimeout(() => void child.stop(), RUN_MS);
  await child.exited;
  clearTimeout(late);
  const disturbances = disturbed();
  const document = JSON.parse(readFileSync(join(out, "run.json"), "utf8")) as RunDocument;
  return { document, folder: out, used: used(), disturbances };
};

/** The named measurement of the first stage that has it, else `NaN`. */
export const figureOf = ({ measurements }: RunDocument, name: string): number =>
  measurements.find((one) => one.name === name)?.value ?? Number.NaN;
