/** This machine: which tools it has, and what it can measure. Builds and downloads nothing. */
import { access, constants, statfs } from "node:fs/promises";
import { availableParallelism, cpus, loadavg, tmpdir, totalmem } from "node:os";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Calibration } from "../../history/run-document.ts";
import { readProc } from "../../supervision/processes.ts";
import { fileProblem } from "../../supervision/user-file.ts";
import { seeTool } from "../../tools/find-tool.ts";
import { GO_MINOR_MIN } from "../../tools/go-compiler.ts";
import { askProgram, TOOL_RECIPES, type ToolOptions } from "../../tools/tool-recipe.ts";
import { type Finding, finding, okIf, type Section } from "./finding.ts";

const VERSION_WAIT_MS = 10_000;

/** The path of the first of these programs that the shell finds. */
const onPath = async (names: readonly string[], { PATH }: NodeJS.ProcessEnv): Promise<string | null> => {
  const first = 'for name; do command -v "$name" && break; done';
  const { stdout } = await askProgram("/bin/sh", ["-c", first, "sh", ...names], { env: { PATH } });
  return stdout.trim() || null;
};

const versionOf = async (path: string, args: string[]): Promise<string | null> => {
  const { error, stdout } = await askProgram(path, args, { timeout: VERSION_WAIT_MS });
  return error === null ? stdout.trim().split("\n")[0]?.slice(0, 100) || null : null;
};

/** What a run uses where a tool cannot be had, so that its absence is a remark. */
const STAND_IN = {
  k6: "the open-loop driver stands in for it, except for a script of your own",
  toxiproxy: "a TCP proxy of Floodgate's own stands in for it",
} as const;

/** `lacksGo`: the tool is not there, and neither is a Go to build it. */
const built = async (name: keyof typeof STAND_IN, options: ToolOptions) => {
  const { tool, problem, go, canBeBuilt } = await seeTool(name, options);
  const { variable, expected } = TOOL_RECIPES[name];
  const found = (one: Finding, lacksGo = false) => ({ one, lacksGo });
  if (tool !== null) return found(finding("ok", name, `${tool.version} at ${tool.path}`));
  if (problem !== null) return found(finding("missing", name, problem), true);
  const builder = go ?? "Go, installed by Python's pip,";
  const buildable = `not built yet, or out of date; ${builder} can build it on first use (a few minutes)`;
  if (canBeBuilt) return found(finding("warn", name, buildable, "npx floodgate dev tools"));
  const text = `not built yet, and no Go 1.${GO_MINOR_MIN} or newer is there to build it; ${STAND_IN[name]}`;
  const todo = `install Go from https://go.dev/dl, or Python 3 with pip, or set ${variable} to an existing ${expected}`;
  return found(finding("warn", name, text, todo), true);
};

const goHere = async (env: NodeJS.ProcessEnv, needed: boolean): Promise<Finding> => {
  const path = await onPath(["go"], env);
  const version = path === null ? null : await versionOf(path, ["env", "GOVERSION"]);
  const todo = "install it from https://go.dev/dl";
  const state = needed ? "warn" : "info";
  if (path === null || version === null)
    return finding(state, "go", "not found on PATH; it builds k6 and toxiproxy", todo);
  const isEnough = Number(/go1\.(\d+)/.exec(version)?.[1] ?? 0) >= GO_MINOR_MIN;
  return isEnough
    ? finding("ok", "go", `${version.replace(/^go/, "")} at ${path}`)
    : finding(state, "go", `expected 1.${GO_MINOR_MIN} or newer, found ${version} at ${path}`, todo);
};

const optional = async (name: string, names: string[], use: string, env: NodeJS.ProcessEnv): Promise<Finding> => {
  const path = await onPath(names, env);
  if (path === null) return finding("info", name, `not found on PATH (optional: ${use})`);
  const said = await versionOf(path, ["--version"]);
  return finding("ok", name, `${/\d+\.\d+\S*/.exec(said ?? "")?.[0] ?? "unknown version"} at ${path} (optional)`);
};

const BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

export const toolsHere = async (options: ToolOptions = {}): Promise<Section> => {
  const env = options.env ?? process.env;
  // The launcher refuses a Node that is too old before this file is loaded.
  const node = finding("ok", "node", `${process.versions.node} at ${process.execPath}`);
  const [k6, toxiproxy, ...others] = await Promise.all([
    built("k6", options),
    built("toxiproxy", options),
    optional("redis-server", ["redis-server"], "only `serve --limiter redis://...` and a few tests use one", env),
    optional("chromium", BROWSERS, "any browser shows the report", env),
  ]);
  const go = await goHere(env, k6.lacksGo || toxiproxy.lacksGo);
  return { title: "Tools", findings: [node, go, k6.one, toxiproxy.one, ...others] };
};

const WATCH_MS = 1_000;
const RESOLUTION_MS = 10;
/** Latencies are reported in milliseconds; an event loop that lags more than this distorts them. */
const LAG_MS_MAX = 5;
const PORTS_MIN = 10_000;
/** A call holds one descriptor here and one in an embedded deployment. */
const DESCRIPTORS_MIN = 8_192;
/** The accept queue that Node asks for by default; the kernel caps it at somaxconn. */
const BACKLOG = 511;
/** In half of it a run on the reference platform stood still for a minute, and in a quarter the kernel ended it. */
const MEMORY_MIN_BYTES = 2 ** 30;
const DISK_FREE_MIN_BYTES = 2 * 2 ** 30;
const TMPDIR_TODO = "set TMPDIR to a folder that is there and can be written; no run begins without one";
const PLACE_TODO = "name a place for each run folder with --out, or with FLOODGATE_OUT";
const DISK_TODO = "make room: a history takes up to 0.5 GB, a first build of k6 about 2 GB";

/** How late a timer is over an idle second, in ms: 99th percentile and maximum. */
const idleLag = async (): Promise<{ p99: number; max: number }> => {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
  delay.disable();
  const own = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
  return { p99: own(delay.percentile(99)), max: own(delay.max) };
};

export type MachineReadings = Awaited<ReturnType<typeof readMachine>>;

export const readMachine = async (folders: readonly string[]) => {
  const load1 = loadavg()[0] ?? 0;
  const freeOf = async (folder: string) => {
    const stats = await statfs(folder).catch(() => null);
    const written = constants.W_OK | constants.X_OK;
    const unusable = await access(folder, written).then(
      () => undefined,
      (error) => fileProblem(error)?.sentence,
    );
    return { folder, freeBytes: stats === null ? null : stats.bavail * stats.bsize, unusable };
  };
  return {
    ...{ cores: availableParallelism(), cpu: cpus()[0]?.model ?? "unknown", load1, lagMs: await idleLag() },
    // The memory limit of the container. Where there is none, Node returns 0, or more than the machine has.
    memoryBytes: Math.min(process.constrainedMemory() || totalmem(), totalmem()),
    portRange: readProc("/proc/sys/net/ipv4/ip_local_port_range"),
    limits: readProc("/proc/self/limits"),
    somaxconn: readProc("/proc/sys/net/core/somaxconn"),
    disk: await Promise.all(folders.map(freeOf)),
  };
};

export const judgeMachine = (readings: MachineReadings): Section => {
  const { cores, cpu, load1, lagMs, memoryBytes, portRange, limits, somaxconn, disk } = readings;
  const loaded = `${load1.toFixed(2)} over the last minute, on ${cores} cores`;
  const isIdle = load1 <= cores / 2;
  const late = `an idle timer is up to ${lagMs.p99.toFixed(1)} ms late (p99 over 1 s; at the most ${lagMs.max.toFixed(1)} ms)`;
  const measurable = `no latency below ${Math.ceil(lagMs.p99 * 10)} ms can be measured well; stop what else runs here`;
  const range = /^(\d+)\s+(\d+)/.exec(portRange ?? "");
  const ports = Number(range?.[2]) - Number(range?.[1]) + 1;
  const files = /^Max open files\s+(\S+)\s+(\S+)/m.exec(limits ?? "");
  const isEnough = files?.[1] === "unlimited" || Number(files?.[1]) >= DESCRIPTORS_MIN;
  const queue = Number(somaxconn ?? Number.NaN);
  // biome-ignore format: a row is a line
  const rows: (readonly [name: string, holds: boolean | null, text: string, todo: string])[] = [
    ["cores", cores >= 2, `${cores} (${cpu})${cores >= 2 ? "" : ": driver and deployment share it"}`, "drive from a machine of its own"],
    ["load", isIdle, isIdle ? loaded : `${loaded}: something else is running here`, "wait for it, or times are not to be trusted"],
    ["memory", memoryBytes >= MEMORY_MIN_BYTES, `a run may use ${Math.round(memoryBytes / 2 ** 20)} MiB, with all that it starts`, "give the container, or the machine, 1 GiB"],
    ["timer", lagMs.p99 <= LAG_MS_MAX, late, measurable],
    ["ports", range && ports >= PORTS_MIN, `${ports} ephemeral ports (${range?.[1]} to ${range?.[2]}): as many connections to one address`,
      "sysctl -w net.ipv4.ip_local_port_range='15000 65000'"],
    ["descriptors", files && isEnough, `${files?.[1]} open files and sockets a process (hard limit ${files?.[2]})`,
      `ulimit -n ${DESCRIPTORS_MIN * 8} before the run`],
    ["accept queue", Number.isFinite(queue) ? queue >= BACKLOG : null,
      `the kernel keeps up to ${queue} connections waiting for a listener here (somaxconn)`, `sysctl -w net.core.somaxconn=${BACKLOG * 8 + 8}`],
  ];
  const findings = rows.map(([name, holds, text, todo]) =>
    holds === null ? finding("info", name, "unknown: this system does not say it") : okIf(holds, name, text, todo),
  );
  const disks = disk.map(({ folder, freeBytes: free, unusable }) => {
    if (unusable !== undefined && folder === tmpdir())
      return finding("wrong", "disk", `TMPDIR ${folder}: ${unusable}`, TMPDIR_TODO);
    if (unusable !== undefined) return finding("warn", "disk", `${folder}: ${unusable}`, PLACE_TODO);
    if (free === null) return finding("info", "disk", `free space of ${folder} is unknown`);
    return okIf(free >= DISK_FREE_MIN_BYTES, "disk", `${(free / 2 ** 30).toFixed(1)} GiB free at ${folder}`, DISK_TODO);
  });
  return { title: "This machine", findings: [...findings, ...disks] };
};

export const machineHere = async (reports: string): Promise<Section> =>
  judgeMachine(await readMachine([reports, tmpdir()]));

const QUIET = "stop what else runs here; until it holds, claims about time are inconclusive on this machine";
const SEGMENTS = "divide a schedule above this rate with --segments, or stop what else runs here";

const rounded = (value: number): string => String(Number(value.toPrecision(3)));

const measuredText = ({ truth, measured, unit }: Calibration): string => {
  const of = unit === "ratio" || unit === "1" ? "" : unit === "1/s" ? "/s" : ` ${unit}`;
  return `${rounded(measured)}${of} measured, ${rounded(truth)}${of} true`;
};

type Calibrated = Record<"checks" | "ceilings", readonly Calibration[]> & { lacking: readonly string[] };

/** `lacking`: why drivers could not be tried. `ceilings`: rates that were tried, and those reached. */
export const calibrationSection = ({ checks, lacking, ceilings }: Calibrated): Section => ({
  title: "What it measures of known truths",
  findings: [
    ...checks.map((check) => okIf(check.verdict === "pass", check.name, measuredText(check), QUIET)),
    ...ceilings.map(({ name, truth, measured, verdict }) =>
      okIf(verdict === "pass", name, `${rounded(measured)}/s of ${rounded(truth)}/s`, SEGMENTS),
    ),
    ...lacking.map((reason) => finding("skipped", "k6", reason)),
  ],
});
