/** CPU time that processes and the machine used up, from /proc (Linux; elsewhere nothing is known). */
import { readFileSync } from "node:fs";

/** Clock ticks of the kernel's own accounts; 100 a second on every Linux that Node runs on. */
const TICK_MS = 10;

const read = (path: string): string | null => {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return null;
  }
};

/** Milliseconds that a process has used, its threads included; `null` where it is not there or not known. */
export const cpuTimeMs = (pid: number): number | null => {
  const text = read(`/proc/${pid}/stat`);
  if (text === null) return null;
  // The name of the command is in parentheses and may hold blanks and parentheses itself.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
};

export type MachineTime = { idle: number; steal: number; all: number };

/** Of all cores together, since boot, in ticks; `null` where it is not known. */
export const machineTime = (): MachineTime | null => {
  const [line] = read("/proc/stat")?.split("\n") ?? [];
  if (line === undefined || !line.startsWith("cpu ")) return null;
  // user nice system idle iowait irq softirq steal; guest time is within user already.
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number);
  const [, , , idle = 0, wait = 0, , , steal = 0] = ticks;
  return { idle: idle + wait, steal, all: ticks.reduce((sum, n) => sum + n, 0) };
};
