/**
 * Identifies processes by id and start time, because ids are reused, and reads /proc. Without it (not Linux) `ps` gives
 * the start time, a group is alive if it can be signalled, and nothing else is known.
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { pause, waitUntil } from "./waiting.ts";

/** The kernel counts CPU time in clock ticks: 100 a second on every Linux that Node runs on. */
export const TICKS_PER_S = 100;

export const readProc = (path: string): string | null => {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return null;
  }
};

const SCHED_IDLE = "5";

export type ProcessStat = NonNullable<ReturnType<typeof statOf>>;

export const statOf = (pid: number) => {
  const text = readProc(`/proc/${pid}/stat`);
  if (text === null) return null;
  // The command's name is in parentheses and may itself contain blanks and parentheses.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const sum = (one: number, other: number): number => Number(fields[one]) + Number(fields[other]);
  return {
    state: fields[0] ?? "",
    parent: Number(fields[1]),
    pgid: Number(fields[2]),
    start: fields[19] ?? "",
    /** CPU time of all threads. `childTicks`: CPU time of children that have ended and were waited for. */
    ticks: sum(11, 12),
    childTicks: sum(13, 14),
    core: Number(fields[36]),
    /** Runs only on idle cores (SCHED_IDLE), for example to keep a virtual machine awake. */
    givesWay: fields[38] === SCHED_IDLE,
  };
};

/** Soft and hard limit of a process's open files; infinite if there is no limit, `null` if unknown. */
export const fileLimitsOf = (pid: number | "self"): { soft: number; hard: number } | null => {
  const [, soft, hard] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(readProc(`/proc/${pid}/limits`) ?? "") ?? [];
  const numberOf = (text: string): number => (text === "unlimited" ? Number.POSITIVE_INFINITY : Number(text));
  return soft === undefined || hard === undefined ? null : { soft: numberOf(soft), hard: numberOf(hard) };
};

const pidsHere = (): number[] => {
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
};

export const statsHere = (): Map<number, ProcessStat> => {
  const stats = pidsHere().map((pid) => [pid, statOf(pid)] as const);
  return new Map(stats.filter((one): one is [number, ProcessStat] => one[1] !== null));
};

export const cpuTimeMs = (pid: number): number | null => {
  const stat = statOf(pid);
  return stat === null ? null : stat.ticks * (1000 / TICKS_PER_S);
};

export type MachineTime = NonNullable<ReturnType<typeof machineTime>>;

/** Idle, stolen and total time of these cores since boot (default: all), in ticks; `null` if unknown. */
export const machineTime = (cores?: ReadonlySet<number>) => {
  const names = cores === undefined ? new Set(["cpu"]) : new Set([...cores].map((core) => `cpu${core}`));
  const lines =
    readProc("/proc/stat")
      ?.split("\n")
      .map((line) => line.trim().split(/\s+/)) ?? [];
  const found = lines.filter(([name = ""]) => names.has(name));
  if (found.length === 0) return null;
  const time = { idle: 0, steal: 0, all: 0 };
  for (const line of found) {
    // user nice system idle iowait irq softirq steal; guest time is within user already.
    const ticks = line.slice(1, 9).map(Number);
    const [, , , idle = 0, wait = 0, , , steal = 0] = ticks;
    time.idle += idle + wait;
    time.steal += steal;
    time.all += ticks.reduce((sum, n) => sum + n, 0);
  }
  return time;
};

/** The cores that a process may run on, by a list such as `0-3,8`; empty if unknown. */
export const coresOf = (pid: number | "self"): Set<number> => {
  const [, list = ""] = /^Cpus_allowed_list:\s*(\S+)/m.exec(readProc(`/proc/${pid}/status`) ?? "") ?? [];
  const ranges = list === "" ? [] : list.split(",").map((range) => range.split("-").map(Number));
  return new Set(
    ranges.flatMap(([first = 0, last = first]) => Array.from({ length: last - first + 1 }, (_, at) => first + at)),
  );
};

/** The SCHED_IDLE processes (`givesWay`) and the CPU time of each, in ticks. */
export const givingWay = (all: ReadonlyMap<number, ProcessStat> = statsHere()): Map<number, number> =>
  new Map([...all].flatMap(([pid, { givesWay, ticks }]) => (givesWay ? [[pid, ticks]] : [])));

/** CPU time, in ticks, that processes in both maps of `givingWay` used between them. `counts` selects processes. */
export const givenWayTicks = (
  before: ReadonlyMap<number, number>,
  after: ReadonlyMap<number, number>,
  counts: (pid: number) => boolean = () => true,
): number => {
  let ticks = 0;
  for (const [pid, used] of after) if (counts(pid)) ticks += used - (before.get(pid) ?? used);
  return ticks;
};

/** `start`: field 22 of /proc/PID/stat (clock ticks since boot), or the output of `ps -o lstart=`. */
export type ProcessId = { pid: number; start: string };
export type GroupId = ProcessId & { pgid: number };

const isLinux = process.platform === "linux";

const isZombie = ({ state }: ProcessStat): boolean => state === "Z" || state === "X";

/** `null` if there is no such process, or it is a zombie (ended, not yet waited for by its parent). */
export const startTimeOf = (pid: number): string | null => {
  const stat = statOf(pid);
  if (isLinux) return stat === null || isZombie(stat) ? null : stat.start;
  try {
    // Terminals may differ in language and time zone.
    const env = { ...process.env, LC_ALL: "C", TZ: "UTC" };
    return execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8", env }).trim() || null;
  } catch {
    return null;
  }
};

/** The parent's process id; 0 if it has none or it is unknown (not Linux). */
export const parentOf = (pid: number): number => statOf(pid)?.parent ?? 0;

const GONE = "gone";

/** Like `startTimeOf`, but also for a zombie: right after a spawn the child may have ended already. */
export const birthOf = (pid: number): string => (isLinux ? statOf(pid)?.start : startTimeOf(pid)) ?? GONE;

export const isAlive = ({ pid, start }: ProcessId): boolean => startTimeOf(pid) === start;

/** Reports whether any process has this id, also one that this user may not signal. */
const isIdInUse = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
};

/**
 * Reports whether a process has certainly ended. One that cannot be looked up may still run: /proc may hide processes
 * of other users (`hidepid`) or be absent, and this process may have as many files open as it may. If `start` is empty
 * or `GONE` (it could not be looked up), any process with that id counts.
 */
export const hasEnded = ({ pid, start }: ProcessId): boolean => {
  const stat = statOf(pid);
  if (stat !== null && isZombie(stat)) return true;
  const now = stat?.start ?? startTimeOf(pid);
  return now === null || start === "" || start === GONE ? !isIdInUse(pid) : now !== start;
};

/** Returns false if the process, or the group (as a negative number), no longer exists. */
const kill = (pid: number, signal: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
};

export const signalProcess = (target: ProcessId, signal: NodeJS.Signals) => isAlive(target) && kill(target.pid, signal);

/** If a later process has the leader's id, the group is gone: the kernel does not reuse an id while a group has it. */
export const isGroupAlive = ({ pid, start, pgid }: GroupId): boolean => {
  const leader = birthOf(pid);
  if (leader !== GONE && leader !== start) return false;
  const stats = [...statsHere().values()];
  // Nothing can be read without /proc, nor while this process has as many files open as it may.
  if (stats.length === 0) return kill(-pgid, 0);
  return stats.some((stat) => stat.pgid === pgid && !isZombie(stat));
};

export const signalGroup = (group: GroupId, signal: NodeJS.Signals): void => {
  if (isGroupAlive(group)) kill(-group.pgid, signal);
};

const KILL_MS = 2_000;

/** Sends SIGTERM, with SIGCONT for stopped processes, and SIGKILL after the grace. Throws if the group survives. */
export const endGroup = async (group: GroupId, graceMs: number): Promise<"was gone" | "ended" | "killed"> => {
  const goneWithin = (forMs: number) => waitUntil(async () => !isGroupAlive(group), { forMs, pollMs: 20 });
  if (group.pgid <= 1 || group.pgid === process.pid || !isGroupAlive(group)) return "was gone";
  signalGroup(group, "SIGTERM");
  signalGroup(group, "SIGCONT");
  if ((await goneWithin(graceMs)).met) return "ended";
  signalGroup(group, "SIGKILL");
  if ((await goneWithin(KILL_MS)).met) return "killed";
  throw new Error(`process ${group.pid} is still there after SIGKILL`);
};

/** The environment variable that marks every process of a run, so that those that left their group are found. */
export const RUN_MARK = "FLOODGATE_RUN_MARK";

/**
 * The environment of a target file's commands: without the mark, what they leave running outlives the run; without
 * Node's cache, none of their code is kept in this clone.
 */
export const unmarked = ({ ...env }: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv => {
  for (const name of [RUN_MARK, "NODE_COMPILE_CACHE"]) delete env[name];
  return env;
};

const inherited = (...names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])));

/** The environment variable with this run's mark, for processes that get no other variable. */
export const runMark = (): Record<string, string> => inherited(RUN_MARK);

/** The same for programs of this clone, with Node's cache: they load in a third of the time. */
export const ownRunMark = (): Record<string, string> => inherited(RUN_MARK, "NODE_COMPILE_CACHE");

/** Reports whether a process of this user was started with the mark in its environment; false without /proc. */
export const carriesMark = (pid: number, mark: string): boolean =>
  isLinux &&
  statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid === process.geteuid?.() &&
  readProc(`/proc/${pid}/environ`)?.split("\0").includes(`${RUN_MARK}=${mark}`) === true;

export const markedProcesses = (mark: string): ProcessId[] =>
  pidsHere().flatMap((pid) => {
    const start = pid !== process.pid && carriesMark(pid, mark) ? startTimeOf(pid) : null;
    return start === null ? [] : [{ pid, start }];
  });

/** Kills all processes with the mark, repeatedly: one may just have started another. Returns those found first. */
export const killMarked = async (mark: string): Promise<ProcessId[]> => {
  const all = markedProcesses(mark);
  let left = all;
  for (let tries = 0; left.length > 0 && tries < 20; tries++) {
    for (const stray of left) signalProcess(stray, "SIGKILL");
    await pause(25);
    left = markedProcesses(mark);
  }
  return all;
};
