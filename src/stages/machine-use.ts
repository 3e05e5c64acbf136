/** Measures from /proc (Linux) who used this machine's cores during a stage: the run, a local deployment or others. */

import { readdirSync, readlinkSync } from "node:fs";
import { cpus } from "node:os";
import { readGauges } from "../client/control-planes.ts";
import { isLoopbackHost } from "../contract/loopback.ts";
import type { RunContext } from "../deployments/deployment.ts";
import type { Driven } from "../drivers/driver.ts";
import type { Calibration, Measurement } from "../history/run-document.ts";
import type { Sample } from "../history/series.ts";
import type { Gauges, StageHost } from "../history/stage-facts.ts";
import type { Histogram } from "../history/statistics/histogram.ts";
import { sumOf } from "../history/statistics/statistics.ts";
import { OTHERS_TENTH } from "../history/time-doubts.ts";
import * as proc from "../supervision/processes.ts";
import { pause } from "../supervision/waiting.ts";

const EVERY_MS = 500;

const gaugeValues = (gauges: readonly Gauges[]): Sample["values"] => {
  const over = (name: "in_flight" | "sockets" | "rss_bytes" | "event_loop_lag_ms_p99", joined = sumOf) => {
    const shown = gauges.flatMap((gauge) => gauge[name] ?? []);
    return shown.length === 0 ? undefined : joined(shown);
  };
  return {
    ...{ in_flight: over("in_flight") ?? 0, sockets: over("sockets"), rss_bytes: over("rss_bytes") },
    event_loop_lag_ms_p99: over("event_loop_lag_ms_p99", (lags) => Math.max(...lags)),
  };
};

const usedNow = (pids: readonly number[]) => {
  const used = pids.map((pid) => [pid, proc.cpuTimeMs(pid)] as const);
  const byPid = new Map(used.filter((one): one is readonly [number, number] => one[1] !== null));
  return { atMs: performance.now(), byPid, machine: proc.machineTime() };
};
type Used = ReturnType<typeof usedNow>;

const share = (part: number, whole: number): number => Math.round((1000 * part) / whole) / 1000;

const usedValues = ({ machine: then, ...was }: Used, { machine: now, ...is }: Used): Sample["values"] => {
  const ms = sumOf([...is.byPid].map(([pid, used]) => used - (was.byPid.get(pid) ?? 0)));
  const all = then === null || now === null ? 0 : now.all - then.all;
  const of = (part: "steal" | "idle"): number => (now?.[part] ?? 0) - (then?.[part] ?? 0);
  return {
    generator_cores: is.byPid.size === 0 ? undefined : share(ms, is.atMs - was.atMs),
    host_steal: all > 0 ? share(of("steal"), all) : undefined,
    host_busy: all > 0 ? share(all - of("idle"), all) : undefined,
  };
};

/** Starts sampling and returns the function that stops it. Leaves out unreadable gauges; judges read their own. */
export const sampleStage = (
  { nowUs, sample }: Pick<RunContext, "nowUs" | "sample">,
  stage: string,
  apis: readonly string[],
  pids: readonly number[],
): (() => void) => {
  let isOver = false;
  let isReading = false;
  let was = usedNow(pids);
  const look = async (): Promise<void> => {
    if (isReading) return;
    isReading = true;
    const is = usedNow(pids);
    const used = usedValues(was, is);
    was = is;
    const at_us = nowUs();
    const gauges = apis.length === 0 ? null : await readGauges(apis).catch(() => null);
    isReading = false;
    const values = Object.entries({ ...used, ...(gauges && gaugeValues(gauges)) }).filter(([, is]) => is !== undefined);
    if (isOver || values.length === 0) return;
    sample({ type: "sample", stage, at_us, values: Object.fromEntries(values) });
  };
  const timer = setInterval(() => void look(), EVERY_MS);
  timer.unref();
  return () => {
    isOver = true;
    clearInterval(timer);
  };
};

const SHARES = [0.5, 0.75, 0.9, 0.99, 0.999, 1] as const;

type CoresUsed = Pick<StageHost, "cores" | "target_cores" | "other_cores" | "idle_other_cores">;
type About = { driven: Driven; used: CoresUsed; measurements: readonly Measurement[]; calibration: Calibration[] };

/** `lag`: how late calls left, in microseconds. */
export const stageHost = (lag: Histogram, { driven, used, measurements, calibration }: About): StageHost => ({
  host: driven.host,
  ...used,
  calls: lag.n,
  lag_ms: lag.n === 0 ? [] : SHARES.map((share) => [share, (lag.quantile(share) as number) / 1000]),
  rate_error: measurements.find(({ name }) => name === "rate_error")?.value ?? null,
  generator: driven.problems.flatMap(({ about, reason }) => (about === "time" ? [reason] : [])),
  calibration,
});

export const treeOf = (root: number, all: ReadonlyMap<number, proc.ProcessStat>): Set<number> => {
  const tree = new Set([root]);
  for (let before = 0; before !== tree.size; ) {
    before = tree.size;
    for (const [pid, { parent }] of all) if (tree.has(parent)) tree.add(pid);
  }
  return tree;
};

const listenerOn = (port: number, all: ReadonlyMap<number, proc.ProcessStat>): number | null => {
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  const listening = new RegExp(`^\\s*\\d+: \\w+:${hex} \\w+:0000 0A (?:\\S+ +){5}(\\d+)`, "m");
  const inode = (listening.exec(proc.readProc("/proc/net/tcp") ?? "") ??
    listening.exec(proc.readProc("/proc/net/tcp6") ?? ""))?.[1];
  if (inode === undefined) return null;
  for (const pid of all.keys()) {
    try {
      for (const fd of readdirSync(`/proc/${pid}/fd`)) {
        if (readlinkSync(`/proc/${pid}/fd/${fd}`) === `socket:[${inode}]`) return pid;
      }
    } catch {}
  }
  return null;
};

export const portHere = (url: string): number | null => {
  const { hostname, port, protocol } = new URL(url);
  return isLoopbackHost(hostname) ? Number(port || (protocol === "https:" ? 443 : 80)) : null;
};

/** The CPU ticks of these processes and of their children that have ended and were waited for. */
const ticksOf = (pids: readonly number[], of: ReadonlyMap<number, proc.ProcessStat>): number =>
  pids.reduce((sum, pid) => sum + (of.get(pid)?.ticks ?? 0) + (of.get(pid)?.childTicks ?? 0), 0);

/** `baseUrl`: the deployment's, `null` if there is none. The returned function tells the cores used since. */
export const watchMachineUse = (baseUrl: string | null) => {
  const before = proc.statsHere();
  const port = baseUrl === null ? null : portHere(baseUrl);
  const listener = port === null ? null : listenerOn(port, before);
  // What others do on cores that neither the run nor the deployment may use takes nothing from them.
  const usable = proc.coresOf("self").union(listener === null ? new Set<number>() : proc.coresOf(listener));
  const cores = usable.size || cpus().length;
  const machineNow = () => proc.machineTime(usable.size === 0 ? undefined : usable);
  const machineBefore = machineNow();
  const beganMs = performance.now();
  return (): CoresUsed => {
    const after = proc.statsHere();
    const machine = machineNow();
    const seconds = (performance.now() - beganMs) / 1000;
    if (machineBefore === null || machine === null || seconds <= 0)
      return { cores, target_cores: null, other_cores: null };
    const inCores = (ticks: number): number => Math.max(0, ticks / proc.TICKS_PER_S / seconds);
    const ours = treeOf(process.pid, after);
    // Processes that started during the stage, such as the generator, are not the deployment's.
    const listening = listener === null ? new Set<number>() : treeOf(listener, before);
    const target = [...listening].filter((pid) => pid !== process.pid && after.has(pid));
    const foreign = target.filter((pid) => !ours.has(pid));
    const since = (part: keyof proc.MachineTime): number => machine[part] - machineBefore[part];
    const usedBy = (pids: Iterable<number>, then = pids): number =>
      ticksOf([...pids], after) - ticksOf([...then], before);
    const used = usedBy(ours, treeOf(process.pid, before)) + usedBy(foreign);
    const isCounted = (pid: number): boolean => ours.has(pid) || target.includes(pid);
    // A process of the lowest priority takes no time from others, so it does not count.
    const isHere = (pid: number): boolean => usable.size === 0 || usable.has(after.get(pid)?.core ?? 0);
    const takesNothing = (pid: number): boolean => !isCounted(pid) && isHere(pid);
    const givenWay = proc.givenWayTicks(proc.givingWay(before), proc.givingWay(after), takesNothing);
    return {
      cores,
      target_cores: listener === null ? null : inCores(usedBy(target)),
      other_cores: inCores(since("all") - since("idle") - since("steal") - used - givenWay),
    };
  };
};

const IDLE_LOOK_MS = 250;
/** A deployment may go on working for this long after its last answer. */
const SETTLE_MS = 750;

/**
 * The share of all cores that other programs use, watched while none of our calls is under way: then it is not the work of a
 * deployment behind a local proxy or in a container, whose processes are not found by the port. If it is more than `most`, a
 * second look counts. `null` if unknown.
 */
export const othersOnIdleMachine = async (
  baseUrl: string,
  most: number,
  signal: AbortSignal,
): Promise<number | null> => {
  const look = async (): Promise<number | null> => {
    const ended = watchMachineUse(baseUrl);
    await pause(IDLE_LOOK_MS, signal);
    const { other_cores: used, cores } = ended();
    return used === null ? null : used / cores;
  };
  const first = await look();
  if (first === null || first <= most) return first;
  await pause(SETTLE_MS, signal);
  return look();
};

/** Whose work it was that other programs did in a stage: looks only where it was enough to matter. */
export const idleOtherCores = async (
  { other_cores: used, cores }: CoresUsed,
  baseUrl: string,
  signal: AbortSignal,
): Promise<Pick<CoresUsed, "idle_other_cores">> => {
  const share = (used ?? 0) > OTHERS_TENTH * cores ? await othersOnIdleMachine(baseUrl, OTHERS_TENTH, signal) : null;
  return share === null ? {} : { idle_other_cores: share * cores };
};
