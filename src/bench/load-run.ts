/** `floodgate load` as users run it: a process of its own, its target in a file, its figures in the run folder. */

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunDocument } from "../history/run-document.ts";
import { pidsHere, readProc, statOf, TICKS_PER_S } from "../supervision/processes.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import type { BenchRoom } from "./comparison.ts";

/** Cores on average while the busy process was there; memory at its most. */
type ProcessUse = { cores: number; rssBytes: number };

const EVERY_MS = 200;
/** A process that has just begun reads its scripts. */
const BEGUN_LOOKS = 10;

/** The script that node runs; the name of the command for all others. */
const nameOf = (pid: number): string => {
  const script = /([\w-]+)\.(?:ts|mjs)/.exec(readProc(`/proc/${pid}/cmdline`) ?? "")?.[1];
  const command = readProc(`/proc/${pid}/comm`)?.trim() ?? "";
  return command.startsWith("node") ? (script ?? command) : command;
};

const isBelow = (pid: number, root: number): boolean => {
  for (let at = pid; at > 1; at = statOf(at)?.parent ?? 0) if (at === root) return true;
  return false;
};

/** Watches the processes below one by name, until asked. Cores count while a process called `busy` is there. */
const watchProcesses = (root: number, busy: string): (() => Map<string, ProcessUse>) => {
  /** By number; `null`: not below the root. */
  const known = new Map<number, { looks: number; ticks: number } | null>();
  const used = new Map<string, { ticks: number; rssBytes: number }>();
  let busyS = 0;
  const look = (): void => {
    const now: { name: string; ticks: number; rssBytes: number }[] = [];
    let isBusy = false;
    for (const pid of pidsHere()) {
      const was = known.get(pid);
      const ticks = was === null ? undefined : statOf(pid)?.ticks;
      if (ticks === undefined) continue;
      if (was === undefined && !isBelow(pid, root)) {
        known.set(pid, null);
        continue;
      }
      // Read anew: a process that has just been forked has its parent's name.
      const name = nameOf(pid);
      const looks = (was?.looks ?? 0) + 1;
      known.set(pid, { looks, ticks });
      isBusy ||= name === busy && looks > BEGUN_LOOKS;
      const [, kB = 0] = /^VmRSS:\s+(\d+)/m.exec(readProc(`/proc/${pid}/status`) ?? "") ?? [];
      now.push({ name, ticks: ticks - (was?.ticks ?? ticks), rssBytes: 1024 * Number(kB) });
    }
    if (isBusy) busyS += EVERY_MS / 1000;
    for (const [name, same] of Map.groupBy(now, (one) => one.name)) {
      const sum = (field: "ticks" | "rssBytes"): number => same.reduce((all, one) => all + one[field], 0);
      const before = used.get(name) ?? { ticks: 0, rssBytes: 0 };
      const ticks = before.ticks + (isBusy ? sum("ticks") : 0);
      used.set(name, { ticks, rssBytes: Math.max(before.rssBytes, sum("rssBytes")) });
    }
  };
  const timer = setInterval(look, EVERY_MS);
  return () => {
    clearInterval(timer);
    return new Map(
      [...used].map(([name, { ticks, rssBytes }]) => [name, { cores: ticks / TICKS_PER_S / busyS, rssBytes }]),
    );
  };
};

const KEY = "FLOODGATE_BENCH_NULL";
const RUN_MS = 600_000;

/** A target file for a bare server, which looks at no key. Returns its path. */
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

/** `used`: by name, the runner (`floodgate`), k6, the server of the benchmark. */
type LoadRun = { document: RunDocument; folder: string; used: Map<string, ProcessUse> };

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

/** Of the first stage that has it; `NaN` where none has. */
export const figureOf = ({ measurements }: RunDocument, name: string): number =>
  measurements.find((one) => one.name === name)?.value ?? Number.NaN;
