/** `floodgate load` as users run it: a process of its own, its target in a file, its figures in the run folder. */

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunDocument } from "../history/run-document.ts";
import { pidsHere, readProc, statOf, TICKS_PER_S } from "../supervision/processes.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import type { BenchRoom } from "./comparison.ts";

/** What processes below one use meanwhile: which of them is the bottleneck, and how much memory each takes. */
type ProcessUse = {
  /** Cores, on average while the busy process was there. */
  cores: number;
  rssBytes: number;
};

const EVERY_MS = 200;
/** A process that has just begun reads its scripts. */
const BEGUN_LOOKS = 10;

/** The script that node runs; the name of the command for all others. */
const nameOf = (pid: number): string => {
  const script = /([\w-]+)\.(?:ts|mjs)/.exec(readProc(`/proc/${pid}/cmdline`) ?? "")?.[1];
  const command = readProc(`/proc/${pid}/comm`)?.trim() ?? "";
  return command.startsWith("node") ? (script ?? command) : command;
};
const rssOf = (pid: number): number =>
  1024 * Number(/^VmRSS:\s+(\d+)/m.exec(readProc(`/proc/${pid}/status`) ?? "")?.[1] ?? 0);

const isBelow = (pid: number, root: number): boolean => {
  for (let at = pid; at > 1; at = statOf(at)?.parent ?? 0) if (at === root) return true;
  return false;
};

/** Begins; what it returns ends it and gives the use by name. Cores count while a process called `busy` is there. */
const watchProcesses = (root: number, busy: string): (() => Map<string, ProcessUse>) => {
  /** By number; `null`: not below the root. */
  const known = new Map<number, { looks: number; ticks: number } | null>();
  const used = new Map<string, { ticks: number; rssBytes: number }>();
  let counted = 0;
  const look = (): void => {
    const now = new Map<string, { ticks: number; rssBytes: number }>();
    let isBusy = false;
    for (const pid of pidsHere()) {
      const was = known.get(pid);
      const stat = was === null ? null : statOf(pid);
      if (stat === null) continue;
      if (was === undefined && !isBelow(pid, root)) {
        known.set(pid, null);
        continue;
      }
      const { ticks } = stat;
      // Read anew: a process that has just been forked has its parent's name.
      const name = nameOf(pid);
      const looks = (was?.looks ?? 0) + 1;
      known.set(pid, { looks, ticks });
      isBusy ||= name === busy && looks > BEGUN_LOOKS;
      const sum = now.get(name) ?? { ticks: 0, rssBytes: 0 };
      now.set(name, { ticks: sum.ticks + ticks - (was?.ticks ?? ticks), rssBytes: sum.rssBytes + rssOf(pid) });
    }
    if (isBusy) counted += 1;
    for (const [name, { ticks, rssBytes }] of now) {
      const sum = used.get(name) ?? { ticks: 0, rssBytes: 0 };
      used.set(name, { ticks: sum.ticks + (isBusy ? ticks : 0), rssBytes: Math.max(sum.rssBytes, rssBytes) });
    }
  };
  const timer = setInterval(look, EVERY_MS);
  return () => {
    clearInterval(timer);
    const spanS = (counted * EVERY_MS) / 1000;
    return new Map(
      [...used].map(([name, { ticks, rssBytes }]) => [name, { cores: ticks / TICKS_PER_S / spanS, rssBytes }]),
    );
  };
};

const KEY = "FLOODGATE_BENCH_NULL";
const RUN_MS = 600_000;

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
