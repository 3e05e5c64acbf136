/** Files of /proc, read in one place (Linux; elsewhere nothing is known). */
import { readdirSync, readFileSync, statSync } from "node:fs";

/** Clock ticks of the kernel's own accounts; 100 a second on every Linux that Node runs on. */
export const TICKS_PER_S = 100;

/** The text of a file, `null` where there is none. */
export const readProc = (path: string): string | null => {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return null;
  }
};

/** The number of the user that a process runs as; `null` where there is none. */
export const ownerOf = (pid: number): number | null => statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? null;

export type ProcessStat = {
  state: string;
  parent: number;
  pgid: number;
  /** Clock ticks since boot, as text. */
  start: string;
  /** CPU time, its threads included; and that of its children which have ended and were waited for. */
  ticks: number;
  childTicks: number;
  /** Runs only on a core that nobody else wants (SCHED_IDLE): it keeps a virtual machine awake and takes nothing from anybody. */
  givesWay: boolean;
};

const SCHED_IDLE = "5";

export const statOf = (pid: number): ProcessStat | null => {
  const text = readProc(`/proc/${pid}/stat`);
  if (text === null) return null;
  // The name of the command is in parentheses and may hold blanks and parentheses itself.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const sum = (one: number, other: number): number => Number(fields[one]) + Number(fields[other]);
  return {
    state: fields[0] ?? "",
    parent: Number(fields[1]),
    pgid: Number(fields[2]),
    start: fields[19] ?? "",
    ticks: sum(11, 12),
    childTicks: sum(13, 14),
    givesWay: fields[38] === SCHED_IDLE,
  };
};

/** How many files a process may have open now, and how many it may allow itself; infinite where there is no limit. */
export const fileLimitsOf = (pid: number | "self"): { soft: number; hard: number } | null => {
  const [, soft, hard] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(readProc(`/proc/${pid}/limits`) ?? "") ?? [];
  const numberOf = (text: string): number => (text === "unlimited" ? Number.POSITIVE_INFINITY : Number(text));
  return soft === undefined || hard === undefined ? null : { soft: numberOf(soft), hard: numberOf(hard) };
};

export const pidsHere = (): number[] => {
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
};

/** Of all processes here, each read once. */
export const statsHere = (): Map<number, ProcessStat> => {
  const found = new Map<number, ProcessStat>();
  for (const pid of pidsHere()) {
    const stat = statOf(pid);
    if (stat !== null) found.set(pid, stat);
  }
  return found;
};
