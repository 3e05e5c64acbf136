/**
 * What this machine can measure, read and not tried out: no load is made here. A figure that the system does not give is
 * said to be unknown.
 */
import { statfs } from "node:fs/promises";
import { availableParallelism, cpus, loadavg, tmpdir } from "node:os";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { readProc } from "../../supervision/proc-files.ts";
import { type Finding, finding, type Section } from "./finding.ts";

const WATCH_MS = 1_000;
const RESOLUTION_MS = 10;
/** Latency is given in milliseconds: a loop that is later than this by itself spoils them. */
const LAG_MS_MAX = 5;
const PORTS_MIN = 10_000;
/** A call holds one here and one at an embedded deployment. */
const DESCRIPTORS_MIN = 8_192;
/** What Node asks for when it listens; the kernel cuts it to somaxconn. */
const BACKLOG = 511;
const DISK_FREE_MIN_BYTES = 2 * 2 ** 30;

const unknown = (name: string): Finding => finding("info", name, "unknown: this system does not say it");

export type MachineReadings = {
  cores: number;
  cpu: string;
  load1: number;
  /** Idle, over a second: 99th percentile and maximum of how late a timer was, in ms. */
  lagMs: { p99: number; max: number };
  /** Text of /proc files, `null` where there is none. */
  portRange: string | null;
  limits: string | null;
  somaxconn: string | null;
  /** Free bytes by folder, `null` where it cannot be read. */
  disk: readonly { folder: string; freeBytes: number | null }[];
};

const idleLag = async (): Promise<{ p99: number; max: number }> => {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
  delay.disable();
  // The monitor's own interval is in its figures.
  const own = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
  return { p99: own(delay.percentile(99)), max: own(delay.max) };
};

const freeBytes = async (folder: string): Promise<number | null> => {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    return null;
  }
};

/** `folders`: where run folders and temporary files go. Takes a second. */
export const readMachine = async (folders: readonly string[]): Promise<MachineReadings> => {
  const load1 = loadavg()[0] ?? 0;
  return {
    cores: availableParallelism(),
    cpu: cpus()[0]?.model ?? "unknown",
    load1,
    lagMs: await idleLag(),
    portRange: readProc("/proc/sys/net/ipv4/ip_local_port_range"),
    limits: readProc("/proc/self/limits"),
    somaxconn: readProc("/proc/sys/net/core/somaxconn"),
    disk: await Promise.all(folders.map(async (folder) => ({ folder, freeBytes: await freeBytes(folder) }))),
  };
};

const coresFinding = ({ cores, cpu }: MachineReadings): Finding =>
  cores >= 2
    ? finding("ok", "cores", `${cores} (${cpu})`)
    : finding("warn", "cores", `${cores} (${cpu}): driver and deployment share it`, "drive from a machine of its own");

const loadFinding = ({ load1, cores }: MachineReadings): Finding => {
  const text = `${load1.toFixed(2)} over the last minute, on ${cores} cores`;
  return load1 <= cores / 2
    ? finding("ok", "load", text)
    : finding("warn", "load", `${text}: something else is running here`, "wait for it, or times are not to be trusted");
};

const timerFinding = ({ lagMs: { p99, max } }: MachineReadings): Finding => {
  const text = `an idle timer is up to ${p99.toFixed(1)} ms late (p99 over 1 s; at the most ${max.toFixed(1)} ms)`;
  return p99 <= LAG_MS_MAX
    ? finding("ok", "timer", text)
    : finding(
        "warn",
        "timer",
        text,
        `no latency below ${Math.ceil(p99 * 10)} ms can be measured well; stop what else runs here`,
      );
};

const portsFinding = ({ portRange }: MachineReadings): Finding => {
  const range = /^(\d+)\s+(\d+)/.exec(portRange ?? "");
  if (range === null) return unknown("ports");
  const count = Number(range[2]) - Number(range[1]) + 1;
  const text = `${count} ephemeral ports (${range[1]} to ${range[2]}): as many connections to one address`;
  return count >= PORTS_MIN
    ? finding("ok", "ports", text)
    : finding("warn", "ports", text, "sysctl -w net.ipv4.ip_local_port_range='15000 65000'");
};

const descriptorsFinding = ({ limits }: MachineReadings): Finding => {
  const found = /^Max open files\s+(\S+)\s+(\S+)/m.exec(limits ?? "");
  if (found === null) return unknown("descriptors");
  const soft = found[1] === "unlimited" ? Number.POSITIVE_INFINITY : Number(found[1]);
  const text = `${found[1]} open files and sockets a process (hard limit ${found[2]})`;
  return soft >= DESCRIPTORS_MIN
    ? finding("ok", "descriptors", text)
    : finding("warn", "descriptors", text, `ulimit -n ${DESCRIPTORS_MIN * 8} before the run`);
};

const queueFinding = ({ somaxconn }: MachineReadings): Finding => {
  const length = Number(somaxconn ?? Number.NaN);
  if (!Number.isFinite(length)) return unknown("accept queue");
  const text = `the kernel keeps up to ${length} connections waiting for a listener here (somaxconn)`;
  return length >= BACKLOG
    ? finding("ok", "accept queue", text)
    : finding("warn", "accept queue", text, `sysctl -w net.core.somaxconn=${BACKLOG * 8 + 8}`);
};

const diskFinding = ({ folder, freeBytes }: MachineReadings["disk"][number]): Finding => {
  if (freeBytes === null) return finding("info", "disk", `free space of ${folder} is unknown`);
  const text = `${(freeBytes / 2 ** 30).toFixed(1)} GiB free at ${folder}`;
  return freeBytes >= DISK_FREE_MIN_BYTES
    ? finding("ok", "disk", text)
    : finding("warn", "disk", text, "make room: a history takes up to 0.5 GB, a first build of k6 about 2 GB");
};

/** Pure: what the readings mean. */
export const judgeMachine = (readings: MachineReadings): Section => ({
  title: "This machine",
  findings: [
    coresFinding(readings),
    loadFinding(readings),
    timerFinding(readings),
    portsFinding(readings),
    descriptorsFinding(readings),
    queueFinding(readings),
    ...readings.disk.map(diskFinding),
  ],
});

export const machineHere = async (reports: string): Promise<Section> =>
  judgeMachine(await readMachine([reports, tmpdir()]));
