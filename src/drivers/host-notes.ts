/**
 * Records what the machine did during a load. These figures can make claims about time inconclusive, and no others
 * (history/time-doubts.ts).
 */
import { readdirSync, statSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { HostFacts } from "../history/stage-facts.ts";
import type { Histogram } from "../history/statistics/histogram.ts";
import { sumOf } from "../history/statistics/statistics.ts";
import { hostNotesOf } from "../history/time-doubts.ts";
import { cpuTimeMs, fileLimitsOf, givenWayTicks, givingWay, machineTime, readProc } from "../supervision/processes.ts";
import { LATE_MS } from "../workload/arrivals.ts";

export const lagFigures = (lag: Histogram) => {
  const ms = (us: number | null): number => (us ?? 0) / 1000;
  return { p50: ms(lag.quantile(0.5)), p99: ms(lag.quantile(0.99)), max: ms(lag.quantile(1)) };
};

/** Why claims about time are in doubt; `null` if calls left on time. */
export const lagDoubt = ({ p99, max }: ReturnType<typeof lagFigures>): string | null =>
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

const larger = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.max(a, b);

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
 * Starts watching the host; the result ends that and returns the changes. `own`: this process is the generator and
 * sends on one thread; else `pids` are, to which the caller may add. `spunUs`: CPU time of busy-waiting.
 */
export const watchHost = (
  generator: { own: true } | { own: false; pids: readonly number[] } = { own: true },
): ((spunUs?: number) => HostFacts) => {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const before = snapshot();
  const other = generator.own ? null : watchPids(generator.pids);
  let ports: number | null = null;
  let descriptors: number | null = null;
  const look = (): void => {
    other?.look();
    const range = readProc("/proc/sys/net/ipv4/ip_local_port_range") ?? "";
    ports = larger(ports, parsePortsShare(readProc("/proc/net/sockstat") ?? "", range));
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
