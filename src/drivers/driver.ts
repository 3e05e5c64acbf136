/**
 * The interface of every driver: plays a story under a load profile, yields call lines, problems and host facts. Below
 * it stands what the drivers share that play one schedule in several processes.
 */
import type { ChildProcess } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { CallLine, FoldLine } from "../history/line.ts";
import type { Ruling } from "../history/reason-codes.ts";
import type { HostFacts, Protocol, StageHost } from "../history/run-document.ts";
import type { Histogram } from "../history/statistics/histogram.ts";
import { sumOf } from "../history/statistics/statistics.ts";
import { hostNotesOf } from "../history/time-doubts.ts";
import type { BoundedChild } from "../supervision/child.ts";
import { cpuTimeMs, fileLimitsOf, givenWayTicks, givingWay, machineTime, readProc } from "../supervision/processes.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { type BudgetGuard, endsAll, type Spent, type Stopped } from "../workload/budget.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { type Arrivals, LATE_MS, type Profile } from "../workload/load-profiles.ts";
import type { Timeouts } from "../workload/timeouts.ts";

export type DriveJob = {
  stage: string;
  /** Run and stage; call ids are `<idPrefix>-<n>`. */
  idPrefix: string;
  story: string;
  seed: number;
  profile: Profile;
  arrivals: Arrivals;
  target: Target;
  view: TargetView;
  /** When the run began, in microseconds since 1970 (`wallUs`). */
  epochUs: number;
  /** The most calls in flight; further calls are not sent but counted as dropped (default 4096). */
  maxOutstanding?: number;
  /** The open-loop driver busy-waits on a whole core, so that no call is late (`startPacer`). */
  precise?: true;
  /** The deployment is the reference platform, whose answers a folding driver checks more strictly (`looksWrong`). */
  reference?: true;
  /** How long calls may go on after the last arrival (default: the call time-out). */
  drainMs?: number;
  timeouts?: Partial<Timeouts>;
};

export type Problem = Exclude<Ruling, { verdict: "pass" | "skipped" }> & {
  reason: string;
  /**
   * `time`: only claims about time are in doubt. `recovery`: a missed recovery deadline, which a stalled machine may
   * also explain.
   */
  about?: "time" | "recovery";
};

export type Drive = {
  job: DriveJob;
  secrets: Secrets;
  /** Asked before each call leaves. A driver's own process gets a share; what it spent is added when it has ended. */
  budget: BudgetGuard;
  segments?: number;
  onLine(line: CallLine): void;
  /** If given, it receives admitted calls folded per second, and `onLine` receives the other calls. */
  onFold?(line: FoldLine): void;
  onProgress?(text: string): void;
  /** Gets the due time of the first call, in microseconds of the run, from a driver that knows it beforehand. */
  onStart?(startUs: number): void;
  onSpawn?(child: ChildProcess): void;
  /** Gets the path of a folder before credentials are written into it. */
  onFolder?(path: string): void;
  signal: AbortSignal;
};

export type Driven = {
  problems: Problem[];
  notes: string[];
  host: HostFacts | null;
  /** How long the schedule ran; 0 if none was played. */
  scheduledMs: number;
  protocols?: readonly Protocol[];
  /** A process ended early and took along what it knew of its calls: what is missing looks like a breach. */
  isCutOff?: boolean;
  /** When the first call was due, in microseconds of the run; absent if unknown or the schedule never began. */
  startUs?: number;
  /** Calls left out, and how late calls were sent; absent if the driver does not count or its schedule did not end. */
  counts?: { dropped: number; queued: number; unmade: number; lagMsP99: number };
};

/** `beside` runs concurrently with the load and ends it when it resolves. Without it the whole schedule is played. */
export type Driver = (drive: Drive, beside?: () => Promise<void>) => Promise<Driven>;

/** A part of a schedule that one process played. `hasFailed`: not all of it is known, so the stage cannot be judged. */
type Part = { spent: Spent; stopped: Stopped | null; hasFailed: boolean };

/** The abort reason when another process, or what runs beside the load, has failed: the stage cannot be judged then. */
const FAILED = "something else failed";
/** How long calls in flight may take after that. */
const FAILED_GRACE_MS = 5_000;
/** How long calls in flight may take after a stop by budget or signal: a stopped run ends within two seconds. */
export const STOPPED_DRAIN_MS = 1_000;
/** How long after the time-out of its last call a process may take to end, before it is killed. */
export const END_LATE_MS = 30_000;

/** Plays all parts at once. `beside`, a failure or too many errors end all of them; a spent share ends only its own. */
export const playParts = async <P extends Part>(
  { budget, segments = 1, signal }: Drive,
  play: (index: number, signal: AbortSignal) => Promise<P>,
  beside?: () => Promise<void>,
): Promise<P[]> => {
  const over = new AbortController();
  const stop = AbortSignal.any([over.signal, signal]);
  const playing = Array.from({ length: segments }, async (_, index) => {
    const part = await play(index, stop);
    if (endsAll(part.stopped)) over.abort();
    else if (part.hasFailed) over.abort(FAILED);
    return part;
  });
  const whole = Promise.all(playing);
  try {
    // The load may end first, by its budget or a failure.
    if (beside !== undefined) await Promise.race([beside(), whole]).then(() => over.abort());
    const parts = await whole;
    for (const { spent, stopped } of parts) budget.absorb(spent, stopped);
    return parts;
  } finally {
    over.abort(FAILED);
    await Promise.allSettled(playing);
  }
};

/** Registers a process. One that cannot be registered must not run. */
export const register = async (child: ChildProcess, { kill, ended }: BoundedChild, onSpawn: Drive["onSpawn"]) => {
  try {
    onSpawn?.(child);
  } catch (error) {
    kill();
    await ended;
    throw error;
  }
};

/** Asks a process to end its load when the signal fires, and has it killed if its calls (`callsMs`) end too late. */
export const stopWhen = (signal: AbortSignal, { due, ended }: BoundedChild, callsMs: number, ask: () => void): void => {
  const stop = (): void => {
    due(signal.reason === FAILED ? FAILED_GRACE_MS : callsMs + END_LATE_MS, "stop");
    ask();
  };
  signal.addEventListener("abort", stop, { once: true });
  void ended.then(() => signal.removeEventListener("abort", stop));
  if (signal.aborted) stop();
};

// Records what the machine did during a load. These figures can make claims about time inconclusive, and no others
// (history/time-doubts.ts).

export const lagFigures = (lag: Histogram) => {
  const ms = (us: number | null): number => (us ?? 0) / 1000;
  return { p50: ms(lag.quantile(0.5)), p99: ms(lag.quantile(0.99)), max: ms(lag.quantile(1)) };
};

/** Why claims about time are in doubt; `null` if calls left on time. */
export const lagDoubt = ({ p99, max }: ReturnType<typeof lagFigures>): string | null =>
  p99 <= LATE_MS
    ? null
    : `the generator was the bottleneck: one call in a hundred left more than ${Math.round(p99)} ms late (${Math.round(max)} ms at most)`;

/** The host of a level, for doubts. Lateness of its calls is left out, because the driver reports that as a problem. */
export const levelHost = (host: HostFacts | null, used: Partial<StageHost> = {}): StageHost => ({
  ...{ host, cores: cpus().length, target_cores: null, other_cores: null, ...used },
  ...{ rate_error: null, calls: 0, lag_ms: [], generator: [], calibration: [] },
});

export const hostDoubts = (stage: string, host: StageHost) => hostNotesOf(host).map((note) => `${stage}: ${note}`);

/** Counters of `TcpExt` by name, from the two-line table of /proc/net/netstat. */
export const parseNetstat = (text: string): Record<string, number> => {
  const [names, values] = text.split("\n").filter((line) => line.startsWith("TcpExt:"));
  if (names === undefined || values === undefined) return {};
  const figures = values.split(/\s+/);
  return Object.fromEntries(names.split(/\s+/).map((name, at) => [name, Number(figures[at])]));
};

/** Upper bound for the share of ephemeral ports in use: counts all TCP sockets of /proc/net/sockstat. */
export const parsePortsShare = (sockstat: string, range: string): number | null => {
  const [, inUse, waiting] = /^TCP: inuse (\d+) .*?tw (\d+)/m.exec(sockstat) ?? [];
  const [, first, last] = /^(\d+)\s+(\d+)/.exec(range) ?? [];
  if (inUse === undefined || waiting === undefined || first === undefined || last === undefined) return null;
  return (Number(inUse) + Number(waiting)) / (Number(last) - Number(first) + 1);
};

/** How many files a process has open: the folder's size since Linux 6.2, before that counted one by one. */
const openFiles = (pid: number | "self"): number | null => {
  try {
    return statSync(`/proc/${pid}/fd`).size || readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return null;
  }
};

const descriptorsShare = (pid: number | "self"): number | null => {
  const limits = fileLimitsOf(pid);
  const open = openFiles(pid);
  return limits === null || limits.soft === Number.POSITIVE_INFINITY || open === null ? null : open / limits.soft;
};

const larger = (a: number | null, b: number | null) => (a === null ? b : b === null ? a : Math.max(a, b));

const atMostOne = (share: number | null): number | null => (share === null ? null : Math.min(1, share));

const LOOK_EVERY_MS = 500;

/** CPU use of other processes, in cores, each between the first and the last look that saw the process. */
const watchPids = (pids: readonly number[]) => {
  const seen = new Map<number, { ms: number; atMs: number; cores: number }>();
  return {
    look: (): void => {
      for (const pid of pids) {
        const [ms, atMs] = [cpuTimeMs(pid), performance.now()];
        if (ms === null) continue;
        const first = seen.get(pid) ?? { ms, atMs };
        seen.set(pid, { ...first, cores: (ms - first.ms) / (atMs - first.atMs) });
      }
    },
    share: (): number | null => {
      const shares = [...seen.values()].flatMap(({ cores }) => (Number.isNaN(cores) ? [] : [cores]));
      return shares.length === 0 ? null : shares.reduce((sum, one) => sum + one, 0);
    },
  };
};

/** Microseconds for which a control group was throttled (`cpu.stat`); `null` if it has no limit. Version 1 counts in ns. */
export const parseThrottledUs = (text: string): number | null => {
  const [, unit, found] = /^throttled_(usec|time) (\d+)$/m.exec(text) ?? [];
  return found === undefined ? null : Number(found) / (unit === "time" ? 1000 : 1);
};

/**
 * Lists where the statistics of our control group and of those that it is in may be, by /proc/self/cgroup: below the
 * group's path, down to the root, where a container sees its own group only. A limit of any of them holds for us. A line
 * is `0::PATH`, or in version 1 `NUMBER:CONTROLLERS:PATH`.
 */
export const cpuStatPaths = (groups: string): string[] => {
  const found = groups.split("\n").flatMap((line) => {
    const [, controllers, path = ""] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers !== "" && !controllers?.split(",").includes("cpu")) return [];
    const names = path.split("/").filter((name) => name !== "");
    return [...names.keys(), names.length].map((depth) => [controllers, ...names.slice(0, depth)].join("/")).reverse();
  });
  return found.map((path) => `/sys/fs/cgroup/${path}/cpu.stat`.replaceAll(/\/+/g, "/"));
};

const throttledUs = (): number | null => {
  const groups = cpuStatPaths(readProc("/proc/self/cgroup") ?? "0::/");
  const all = groups.flatMap((path) => parseThrottledUs(readProc(path) ?? "") ?? []);
  return all.length === 0 ? null : sumOf(all);
};

const snapshot = () => ({
  throttledUs: throttledUs(),
  net: parseNetstat(readProc("/proc/net/netstat") ?? ""),
  machine: machineTime(),
  givingWay: givingWay(),
  cpu: process.cpuUsage(),
  atMs: performance.now(),
});

/**
 * Watches the host until the returned function is called, which returns what changed. `pids`: the processes that send; the
 * caller may add to the list later. Without `pids`, one thread of this process sends. `spunUs`: CPU time of busy-waiting.
 */
export const watchHost = (pids?: readonly number[]): ((spunUs?: number) => HostFacts) => {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const before = snapshot();
  const other = pids === undefined ? null : watchPids(pids);
  let ports: number | null = null;
  let descriptors: number | null = null;
  const look = (): void => {
    other?.look();
    const range = readProc("/proc/sys/net/ipv4/ip_local_port_range") ?? "";
    ports = larger(ports, parsePortsShare(readProc("/proc/net/sockstat") ?? "", range));
    for (const pid of pids ?? (["self"] as const)) descriptors = larger(descriptors, descriptorsShare(pid));
  };
  look();
  const looking = setInterval(look, LOOK_EVERY_MS);
  looking.unref();
  return (spunUs = 0) => {
    look();
    clearInterval(looking);
    const after = snapshot();
    delay.disable();
    const passedMs = Math.max(1, after.atMs - before.atMs);
    const change = (of: (at: typeof before) => number | null | undefined, per = 1): number | null => {
      const [then, now] = [of(before) ?? null, of(after) ?? null];
      return then === null || now === null || per <= 0 ? null : (now - then) / per;
    };
    const ticks = change(({ machine }) => machine?.all) ?? 0;
    const idle = change(({ machine }) => machine?.idle, ticks);
    const givenWay = ticks > 0 ? givenWayTicks(before.givingWay, after.givingWay) / ticks : 0;
    const { user, system } = process.cpuUsage(before.cpu);
    const lagMs = (nanoseconds: number): number | null => (other === null ? Math.max(0, nanoseconds / 1e6 - 10) : null);
    return {
      event_loop_lag_ms_p99: lagMs(delay.percentile(99)),
      event_loop_lag_ms_max: lagMs(delay.max),
      cpu_share: other === null ? (user + system - spunUs) / 1000 / passedMs : other.share(),
      cpu_share_max: other === null ? 1 : availableParallelism(),
      steal_share: change(({ machine }) => machine?.steal, ticks),
      busy_share: idle === null ? null : Math.max(0, 1 - idle - givenWay),
      // Limits one within another may hold back at the same time.
      throttled_share: atMostOne(change(({ throttledUs }) => throttledUs, 1000 * passedMs)),
      listen_overflows: change(({ net }) => net.ListenOverflows),
      listen_drops: change(({ net }) => net.ListenDrops),
      syn_retransmits: change(({ net }) => net.TCPSynRetrans),
      ports_share: ports,
      descriptors_share: descriptors,
    };
  };
};
