/** What the machine did during a block: time stolen by the hypervisor, and cores used by others than ourselves. */
import { readFileSync } from "node:fs";
import { cpuUsOfAll } from "./child-process.ts";

const STEAL_MAX = 0.02;
const OTHERS_MAX_CORES = 0.25;
const TICKS_PER_S = 100;

/** Seconds of all cores since boot, `null` where /proc has no figure. */
const readStat = (): { busyS: number; stolenS: number; totalS: number } | null => {
  try {
    const ticks = (readFileSync("/proc/stat", "utf8").split("\n", 1)[0] as string).trim().split(/\s+/).slice(1, 9);
    const [user, nice, system, idle, iowait, irq, softirq, steal] = ticks.map((n) => Number(n) / TICKS_PER_S) as [
      ...[number, number, number, number],
      ...[number, number, number, number],
    ];
    const busyS = user + nice + system + irq + softirq;
    return { busyS, stolenS: steal, totalS: busyS + idle + iowait + steal };
  } catch {
    return null;
  }
};

/** CPU time of a process that is not a child of ours in the narrow sense, in microseconds; 0 when it is not known. */
const cpuUsOf = (pid: number | undefined): number => {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_S) * 1e6;
  } catch {
    return 0;
  }
};

/** Starts watching; the function that it returns says how others disturbed us. `alsoOurs`: a further process that belongs to us. */
export const watchHost = async (alsoOurs?: number): Promise<() => Promise<string[]>> => {
  const ownUs = async (): Promise<number> => (await cpuUsOfAll()) + cpuUsOf(alsoOurs);
  const before = readStat();
  const beforeUs = await ownUs();
  const beganMs = performance.now();
  return async () => {
    const after = readStat();
    const usedS = ((await ownUs()) - beforeUs) / 1e6;
    const elapsedS = (performance.now() - beganMs) / 1000;
    if (before === null || after === null) return [];
    const doubts: string[] = [];
    const steal = (after.stolenS - before.stolenS) / (after.totalS - before.totalS);
    if (steal > STEAL_MAX) doubts.push("the hypervisor took CPU time");
    const others = (after.busyS - before.busyS - usedS) / elapsedS;
    if (others > OTHERS_MAX_CORES) doubts.push("other processes used the CPU");
    return doubts;
  };
};
