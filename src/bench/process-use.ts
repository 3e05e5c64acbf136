/** What processes below one use meanwhile: which of them is the bottleneck, and how much memory each takes. */
import { pidsHere, readProc, statOf, TICKS_PER_S } from "../supervision/proc-files.ts";

export type ProcessUse = {
  /** Cores, on average while the busy process was there. */
  cores: number;
  /** Resident memory at its highest. */
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

type Sum = { ticks: number; rssBytes: number };

/** Begins; what it returns ends it and gives the use by name. Cores count while a process called `busy` is there. */
export const watchProcesses = (root: number, busy: string): (() => Map<string, ProcessUse>) => {
  const known = new Map<number, { looks: number; ticks: number }>();
  const strangers = new Set<number>();
  const sums = new Map<string, Sum>();
  let counted = 0;
  const look = (): void => {
    const now = new Map<string, { ticks: number; rssBytes: number }>();
    let isBusy = false;
    for (const pid of pidsHere()) {
      if (strangers.has(pid)) continue;
      const was = known.get(pid);
      if (was === undefined && !isBelow(pid, root)) {
        strangers.add(pid);
        continue;
      }
      const ticks = statOf(pid)?.ticks;
      if (ticks === undefined) continue;
      const name = nameOf(pid);
      const looks = (was?.looks ?? 0) + 1;
      known.set(pid, { looks, ticks });
      isBusy ||= name === busy && looks > BEGUN_LOOKS;
      const sum = now.get(name) ?? { ticks: 0, rssBytes: 0 };
      now.set(name, { ticks: sum.ticks + ticks - (was?.ticks ?? ticks), rssBytes: sum.rssBytes + rssOf(pid) });
    }
    if (isBusy) counted += 1;
    for (const [name, { ticks, rssBytes }] of now) {
      const sum = sums.get(name) ?? { ticks: 0, rssBytes: 0 };
      sums.set(name, {
        ticks: sum.ticks + (isBusy ? ticks : 0),
        rssBytes: Math.max(sum.rssBytes, rssBytes),
      });
    }
  };
  const timer = setInterval(look, EVERY_MS);
  return () => {
    clearInterval(timer);
    const spanS = (counted * EVERY_MS) / 1000;
    return new Map(
      [...sums].map(([name, { ticks, rssBytes }]) => [name, { cores: ticks / TICKS_PER_S / spanS, rssBytes }]),
    );
  };
};
