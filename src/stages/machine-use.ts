/**
 * Who used the cores of this machine while a stage ran: the run itself, the deployment where it is here too, and everybody
 * else, from /proc (Linux; elsewhere nothing is known). Others on the cores make every time longer, ours among them, but for
 * those that run only where nobody else wants to.
 */
import { readdirSync, readlinkSync } from "node:fs";
import {
  givenWayTicks,
  givingWay,
  machineTime,
  type ProcessStat,
  readProc,
  statsHere,
  TICKS_PER_S,
} from "../supervision/proc-files.ts";

/** A process and all that come from it. */
const treeOf = (root: number, all: ReadonlyMap<number, ProcessStat>): Set<number> => {
  const tree = new Set([root]);
  for (let before = 0; before !== tree.size; ) {
    before = tree.size;
    for (const [pid, { parent }] of all) if (tree.has(parent)) tree.add(pid);
  }
  return tree;
};

/** Who listens on a port of this machine; `null` where nobody is seen, or it is not ours to see. */
const listenerOn = (port: number, all: ReadonlyMap<number, ProcessStat>): number | null => {
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  const listening = new RegExp(`^\\s*\\d+: \\w+:${hex} \\w+:0000 0A (?:\\S+ +){5}(\\d+)`, "m");
  const inode = (listening.exec(readProc("/proc/net/tcp") ?? "") ??
    listening.exec(readProc("/proc/net/tcp6") ?? ""))?.[1];
  if (inode === undefined) return null;
  for (const pid of all.keys()) {
    try {
      for (const fd of readdirSync(`/proc/${pid}/fd`)) {
        if (readlinkSync(`/proc/${pid}/fd/${fd}`) === `socket:[${inode}]`) return pid;
      }
    } catch {
      // It has ended, or belongs to somebody else.
    }
  }
  return null;
};

/** The port of an address on this machine. */
export const portHere = (url: string): number | null => {
  const { hostname, port, protocol } = new URL(url);
  const isHere = hostname === "localhost" || hostname === "[::1]" || /^127\./.test(hostname);
  return isHere ? Number(port || (protocol === "https:" ? 443 : 80)) : null;
};

export type MachineUse = { target_cores: number | null; other_cores: number | null };

/** With that of their children which have ended and were waited for. */
const ticksOf = (pids: Iterable<number>, of: ReadonlyMap<number, ProcessStat>): number => {
  let sum = 0;
  for (const pid of pids) {
    const { ticks = 0, childTicks = 0 } = of.get(pid) ?? {};
    sum += ticks + childTicks;
  }
  return sum;
};

/** `baseUrl`: of the deployment, `null` where there is none. The function that comes back says what was used since. */
export const watchMachineUse = (baseUrl: string | null): (() => MachineUse) => {
  const before = statsHere();
  const machineBefore = machineTime();
  const beganMs = performance.now();
  const port = baseUrl === null ? null : portHere(baseUrl);
  const listener = port === null ? null : listenerOn(port, before);
  return () => {
    const after = statsHere();
    const machine = machineTime();
    const seconds = (performance.now() - beganMs) / 1000;
    if (machineBefore === null || machine === null || seconds <= 0) return { target_cores: null, other_cores: null };
    const cores = (ticks: number): number => Math.max(0, ticks / TICKS_PER_S / seconds);
    const ours = treeOf(process.pid, after);
    const oursBefore = treeOf(process.pid, before);
    // The deployment's processes outlive the stage; what began in it, the generator among them, does not count here.
    const listening = listener === null ? new Set<number>() : treeOf(listener, before);
    const target = [...listening].filter((pid) => pid !== process.pid && after.has(pid));
    const foreign = target.filter((pid) => !ours.has(pid));
    const busy =
      machine.all - machineBefore.all - (machine.idle - machineBefore.idle) - (machine.steal - machineBefore.steal);
    const used =
      ticksOf(ours, after) - ticksOf(oursBefore, before) + ticksOf(foreign, after) - ticksOf(foreign, before);
    const isCounted = (pid: number): boolean => ours.has(pid) || target.includes(pid);
    const givenWay = givenWayTicks(givingWay(before), givingWay(after), (pid) => !isCounted(pid));
    return {
      target_cores: listener === null ? null : cores(ticksOf(target, after) - ticksOf(target, before)),
      other_cores: cores(busy - used - givenWay),
    };
  };
};
