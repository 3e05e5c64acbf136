/**
 * What the machine did while we measured. It taints claims about time, and only those: they become inconclusive, with
 * these figures as the reason (design.md section 2, "Open loop, intended time").
 */
import { readFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";

export type HostNotes = {
  event_loop_lag_ms_p99: number;
  event_loop_lag_ms_max: number;
  /** Share of one core that this process used. */
  cpu_share: number;
  /** Share of all cores' time that the hypervisor gave to others; `null` where /proc does not tell. */
  steal_share: number | null;
  /** Connections that a full accept queue turned away, on this host meanwhile; `null` as above. */
  listen_overflows: number | null;
  listen_drops: number | null;
  syn_retransmits: number | null;
};

const read = (path: string): string | null => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
};

/** Counters of `TcpExt` by name, from the two-line table of /proc/net/netstat. */
export const parseNetstat = (text: string): Record<string, number> => {
  const [names, values] = text.split("\n").filter((line) => line.startsWith("TcpExt:"));
  if (names === undefined || values === undefined) return {};
  const figures = values.split(/\s+/);
  return Object.fromEntries(names.split(/\s+/).map((name, at) => [name, Number(figures[at])]));
};

/** Total and stolen time of all cores, in ticks, from the first line of /proc/stat. */
export const parseStat = (text: string): { total: number; steal: number } | null => {
  const match = /^cpu\s+(.*)$/m.exec(text);
  if (match === null) return null;
  const ticks = (match[1] as string).trim().split(/\s+/).map(Number);
  // user nice system idle iowait irq softirq steal; guest time is within user.
  return { total: ticks.slice(0, 8).reduce((sum, n) => sum + n, 0), steal: ticks[7] ?? 0 };
};

const snapshot = () => ({
  net: parseNetstat(read("/proc/net/netstat") ?? ""),
  stat: parseStat(read("/proc/stat") ?? ""),
  cpu: process.cpuUsage(),
  atMs: performance.now(),
});

/** Starts watching; the result of the function tells what changed since. */
export const watchHost = (): (() => HostNotes) => {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const before = snapshot();
  return () => {
    const after = snapshot();
    delay.disable();
    const change = (name: string): number | null => {
      const [then, now] = [before.net[name], after.net[name]];
      return then === undefined || now === undefined ? null : now - then;
    };
    const ticks = before.stat === null || after.stat === null ? 0 : after.stat.total - before.stat.total;
    const { user, system } = process.cpuUsage(before.cpu);
    // The monitor's own interval is in its figures.
    const lagMs = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - 10);
    return {
      event_loop_lag_ms_p99: lagMs(delay.percentile(99)),
      event_loop_lag_ms_max: lagMs(delay.max),
      cpu_share: (user + system) / 1000 / Math.max(1, after.atMs - before.atMs),
      steal_share: ticks > 0 ? ((after.stat?.steal ?? 0) - (before.stat?.steal ?? 0)) / ticks : null,
      listen_overflows: change("ListenOverflows"),
      listen_drops: change("ListenDrops"),
      syn_retransmits: change("TCPSynRetrans"),
    };
  };
};
