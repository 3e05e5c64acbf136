/** Files of /proc: processes, their limits, and the CPU time that they and the machine used (Linux; elsewhere nothing is known). */
import { readdirSync, readFileSync, statSync } from "node:fs";

/** Clock ticks of the kernel's own accounts; 100 a second on every Linux that Node runs on. */
export const TICKS_PER_S = 100;

export const readProc = (path: string): string | null => {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return null;
  }
};

export const ownerOf = (pid: number): number | null => statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? null;

export type ProcessStat = {
  state: string;
  parent: number;
  pgid: number;
  start: string;
  /** CPU time, its threads included; and that of its children which have ended and were waited for. */
  ticks: number;
  childTicks: number;
  /** Runs only on idle cores (SCHED_IDLE), for example to keep a virtual machine awake. */
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

export const statsHere = (): Map<number, ProcessStat> =>
  new Map(
    pidsHere().flatMap((pid) => {
      const stat = statOf(pid);
      return stat === null ? [] : [[pid, stat]];
    }),
  );

export const cpuTimeMs = (pid: number): number | null => {
  const stat = statOf(pid);
  return stat === null ? null : stat.ticks * (1000 / TICKS_PER_S);
};

export type MachineTime = { idle: number; steal: number; all: number };

/** Of all cores together, since boot, in ticks; `null` where it is not known. */
export const machineTime = (): MachineTime | null => {
  const [line] = readProc("/proc/stat")?.split("\n") ?? [];
  if (line === undefined || !line.startsWith("cpu ")) return null;
  // user nice system idle iowait irq softirq steal; guest time is within user already.
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number);
  const [, , , idle = 0, wait = 0, , , steal = 0] = ticks;
  return { idle: idle + wait, steal, all: ticks.reduce((sum, n) => sum + n, 0) };
};

/** The SCHED_IDLE processes (`givesWay`) and the CPU time of each, in ticks. */
export const givingWay = (all: ReadonlyMap<number, ProcessStat> = statsHere()): Map<number, number> =>
  new Map([...all].flatMap(([pid, { givesWay, ticks }]) => (givesWay ? [[pid, ticks]] : [])));

/** What those used in between that gave way at both looks, in ticks. */
export const givenWayTicks = (
  before: ReadonlyMap<number, number>,
  after: ReadonlyMap<number, number>,
  counts: (pid: number) => boolean = () => true,
): number => {
  let ticks = 0;
  for (const [pid, used] of after) if (counts(pid)) ticks += used - (before.get(pid) ?? used);
  return ticks;
};
