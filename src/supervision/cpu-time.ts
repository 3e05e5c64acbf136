/** CPU time that processes and the machine used up, from /proc (Linux; elsewhere nothing is known). */
import { type ProcessStat, readProc, statOf, statsHere, TICKS_PER_S } from "./proc-files.ts";

/** Milliseconds that a process has used, its threads included; `null` where it is not there or not known. */
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

/** Processes that take a core from nobody (`givesWay`), and what each has used, in ticks. */
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
