/**
 * What the machine did during the measurement. These figures can make claims about time inconclusive, and only those
 * (history/time-doubts.ts).
 */
import { readdirSync, statSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { HostFacts } from "../history/stage-host.ts";
import type { Histogram } from "../history/statistics/histogram.ts";
import { hostNotesOf } from "../history/time-doubts.ts";
import { cpuTimeMs, fileLimitsOf, givenWayTicks, givingWay, machineTime, readProc } from "../supervision/processes.ts";
import { LATE_MS } from "../workload/arrivals.ts";

type LagMs = { p50: number; p99: number; max: number };

export const lagFigures = (lag: Histogram): LagMs => {
  const ms = (us: number | null): number => (us ?? 0) / 1000;
  return { p50: ms(lag.quantile(0.5)), p99: ms(lag.quantile(0.99)), max: ms(lag.quantile(1)) };
};

/** Why nothing may be said about time, `null` where calls left as they should. */
export const lagDoubt = ({ p99, max }: LagMs): string | null =>
  p99 <= LATE_MS
    ? null
    : `the generator was the bottleneck: one call in a hundred left more than ${Math.round(p99)} ms late (${Math.round(max)} ms at most)`;

export const hostDoubts = (stage: string, host: HostFacts | null): string[] => {
  const rest = { target_cores: null, other_cores: null, rate_error: null };
  const silent = { calls: 0, lag_ms: [], generator: [], calibration: [] };
  const notes = hostNotesOf({ host, cores: cpus().length, ...rest, ...silent });
  return notes.map((note) => `${stage}: ${note}`);
};

/** Counters of `TcpExt` by name, from the two-line table of /proc/net/netstat. */
export const parseNetstat = (text: string): Record<string, number> => {
  const [names, values] = text.split("\n").filter((line) => line.startsWith("TcpExt:"));
  if (names === undefined || values === undefined) return {};
  const figures = values.split(/\s+/);
  return Object.fromEntries(names.split(/\s+/).map((name, at) => [name, Number(figures[at])]));
};

/** Share of the ephemeral ports in use, by all sockets of /proc/net/sockstat to any address: an upper bound. */
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

const portsShare = (): number | null =>
  parsePortsShare(readProc("/proc/net/sockstat") ?? "", readProc("/proc/sys/net/ipv4/ip_local_port_range") ?? "");

const larger = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.max(a, b);

const LOOK_EVERY_MS = 500;

type WatchedGenerator =
  /** This process is the generator: one thread of it sends. */
  | { own: true }
  /** Processes beside it, as they come; they may use every core. */
  | { own: false; pids: readonly number[] };

type Used = { ms: number; atMs: number };

/** CPU time of other processes, each from when it was first seen to when it was last, in cores. */
const watchPids = (pids: readonly number[]) => {
  const seen = new Map<number, { first: Used; last: Used }>();
  return {
    look: (): void => {
      for (const pid of pids) {
        const ms = cpuTimeMs(pid);
        if (ms === null) continue;
        const last = { ms, atMs: performance.now() };
        seen.set(pid, { first: seen.get(pid)?.first ?? last, last });
      }
    },
    share: (): number | null => {
      const shares = [...seen.values()].flatMap(({ first, last }) =>
        last.atMs > first.atMs ? [(last.ms - first.ms) / (last.atMs - first.atMs)] : [],
      );
      return shares.length === 0 ? null : shares.reduce((sum, one) => sum + one, 0);
    },
  };
};

/** Microseconds for which a control group was throttled (cgroup v2, `cpu.stat`); `null` where it has no limit. */
export const parseThrottledUs = (text: string): number | null => {
  const found = /^throttled_usec (\d+)$/m.exec(text)?.[1];
  return found === undefined ? null : Number(found);
};

const snapshot = () => ({
  throttledUs: parseThrottledUs(readProc("/sys/fs/cgroup/cpu.stat") ?? ""),
  net: parseNetstat(readProc("/proc/net/netstat") ?? ""),
  machine: machineTime(),
  givingWay: givingWay(),
  cpu: process.cpuUsage(),
  atMs: performance.now(),
});

/** Starts watching; the result of the function says what changed since. `spunUs`: CPU time that our own waiting took. */
export const watchHost = (generator: WatchedGenerator = { own: true }): ((spunUs?: number) => HostFacts) => {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const before = snapshot();
  const other = generator.own ? null : watchPids(generator.pids);
  let ports: number | null = null;
  let descriptors: number | null = null;
  const look = (): void => {
    other?.look();
    ports = larger(ports, portsShare());
    for (const pid of generator.own ? (["self"] as const) : generator.pids) {
      descriptors = larger(descriptors, descriptorsShare(pid));
    }
  };
  look();
  const looking = setInterval(look, LOOK_EVERY_MS);
  looking.unref();
  return (spunUs = 0) => {
    look();
    clearInterval(looking);
    const after = snapshot();
    delay.disable();
    const change = (name: string): number | null => {
      const [then, now] = [before.net[name], after.net[name]];
      return then === undefined || now === undefined ? null : now - then;
    };
    const [was, is] = [before.machine, after.machine];
    const ticks = was === null || is === null ? 0 : is.all - was.all;
    const share = (of: "idle" | "steal"): number | null =>
      was === null || is === null || ticks <= 0 ? null : (is[of] - was[of]) / ticks;
    const idle = share("idle");
    const givenWay = ticks > 0 ? givenWayTicks(before.givingWay, after.givingWay) / ticks : 0;
    const { user, system } = process.cpuUsage(before.cpu);
    const lagMs = (nanoseconds: number): number | null => (other === null ? Math.max(0, nanoseconds / 1e6 - 10) : null);
    return {
      event_loop_lag_ms_p99: lagMs(delay.percentile(99)),
      event_loop_lag_ms_max: lagMs(delay.max),
      cpu_share:
        other?.share() ??
        (other === null ? (user + system - spunUs) / 1000 / Math.max(1, after.atMs - before.atMs) : null),
      cpu_share_max: other === null ? 1 : availableParallelism(),
      steal_share: share("steal"),
      busy_share: idle === null ? null : Math.max(0, 1 - idle - givenWay),
      throttled_share:
        before.throttledUs === null || after.throttledUs === null
          ? null
          : (after.throttledUs - before.throttledUs) / 1000 / Math.max(1, after.atMs - before.atMs),
      listen_overflows: change("ListenOverflows"),
      listen_drops: change("ListenDrops"),
      syn_retransmits: change("TCPSynRetrans"),
      ports_share: ports,
      descriptors_share: descriptors,
    };
  };
};
