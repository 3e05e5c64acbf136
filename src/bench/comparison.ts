/**
 * A benchmark compares two sides in pairs of short blocks, as the gate does, because the machine disturbs both sides of a pair
 * alike; and a run of `floodgate load`, which some of them measure.
 */

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { orderOf, SIDES, type Side } from "../gate/block-plan.ts";
import { typicalDifference } from "../gate/paired-comparison.ts";
import type { RunDocument } from "../history/run-document.ts";
import { known, median, sumOf } from "../history/statistics/statistics.ts";
import { treeOf, watchMachineUse } from "../stages/witnesses.ts";
import { machineTime, readProc, statsHere, TICKS_PER_S } from "../supervision/processes.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import type { Supervisor } from "../supervision/supervisor.ts";

export type Settings = { rounds: number; blockS: number; connections: number; soakCalls: number };

/** `folder` is removed at the end. */
export type BenchRoom = { supervisor: Supervisor; folder: string };

export type Bench = {
  name: string;
  what: string;
  /** Runs only if asked for. */
  isLong?: boolean;
  /** Returns rows, or the reason why it cannot run here. */
  run(settings: Settings, room: BenchRoom): Promise<Row[] | string>;
};

/** One block. Higher is better, unless the row says otherwise. */
export type Block = {
  value: number;
  /** CPU time of the server under test for one call or event, in microseconds; `null` where it means nothing. */
  cpuUsEach: number | null;
  /** Why this block cannot be trusted, for example a saturated client or wrong answers. */
  doubts: string[];
  disturbances: string[];
};

export const plainBlock = (value: number, more: Partial<Block> = {}): Block => ({
  ...{ value, cpuUsEach: null, doubts: [], disturbances: [] },
  ...more,
});

export type Pair = { ours: Block; against: Block };

export type Target = { atLeast: number } | { atMost: number };

export type About = Record<"name" | "what" | "unit", string> & { target: Target | null };

export type Row = ReturnType<typeof compare>;

/** Ratio of ours to the other side: typical, least and greatest. */
type Ratios = Record<"ratio" | "ratioMin" | "ratioMax", number>;

/** `too-wide`: the typical ratio reaches the target, but the rounds differ by too much to prove it. */
type Verdict = "reached" | "missed" | "too-wide" | "reported";

/** How far rounds may lie apart, as a share of the typical one, for a target to count as reached. */
const SPREAD_MAX = 0.2;

const spreadOf = ({ ratio, ratioMin, ratioMax }: Ratios): number => (ratioMax - ratioMin) / ratio;

/** A ratio without pairs is `NaN`, which reaches no target. */
const verdictOf = (target: Target | null, figures: Ratios): Verdict => {
  if (target === null) return "reported";
  const isReached = "atLeast" in target ? figures.ratio >= target.atLeast : figures.ratio <= target.atMost;
  if (!isReached) return "missed";
  return spreadOf(figures) > SPREAD_MAX ? "too-wide" : "reached";
};

/** From this many undisturbed pairs on, only those count; with fewer, all pairs count and the row shows the disturbances. */
const CLEAN_MIN = 3;

const isClean = ({ ours, against }: Pair) => ours.disturbances.length === 0 && against.disturbances.length === 0;

export const compare = (about: About, measured: readonly Pair[]) => {
  const clean = measured.filter(isClean);
  const pairs = clean.length >= Math.min(CLEAN_MIN, measured.length) ? clean : measured;
  const ratios = pairs.map(({ ours, against }) => ours.value / against.value);
  const ratio = Math.exp(typicalDifference(ratios.map(Math.log)) ?? Number.NaN);
  const figures = { ratio, ratioMin: Math.min(...ratios), ratioMax: Math.max(...ratios) };
  const typical = (side: keyof Pair): number => median(pairs.map((pair) => pair[side].value)) ?? Number.NaN;
  const doubts = [
    ...measured.flatMap(({ ours, against }) => [...ours.doubts, ...against.doubts]),
    // Disturbances of pairs that are left out do no harm.
    ...pairs.flatMap(({ ours, against }) => [...ours.disturbances, ...against.disturbances]),
  ];
  return {
    ...{ ...about, ...figures, verdict: verdictOf(about.target, figures), pairs: measured },
    /** Pairs that the ratio is made of, and pairs left out because other programs disturbed them. */
    ...{ rounds: pairs.length, leftOut: measured.length - pairs.length },
    /** Medians; `against`: of the bare server, or the required figure. */
    ...{ ours: typical("ours"), against: typical("against") },
    doubts: [...Map.groupBy(doubts, (doubt) => doubt)].map(
      ([doubt, { length: n }]) => `${doubt} (${n} ${n === 1 ? "block" : "blocks"})`,
    ),
  };
};

/** Pairs blocks with those of the other side, or with a required figure. */
export const paired = (ours: readonly Block[], against: readonly Block[] | number): Pair[] =>
  ours.map((block, i) => {
    return { ours: block, against: typeof against === "number" ? plainBlock(against) : (against[i] as Block) };
  });

export const CLIENT_SATURATED = "the client was the bottleneck";

/** Above this share of a core the client is the bottleneck, unless the server is above it as well. */
const SATURATED = 0.93;

export const doubtsOfClient = (clientCpu: number, serverCpu: number): string[] =>
  clientCpu > SATURATED && serverCpu < SATURATED ? [CLIENT_SATURATED] : [];

/** Converts pairs to calls or events per second of the server's CPU time: valid even if the client was the bottleneck. */
export const perCpuSecond = (pairs: readonly Pair[]): Pair[] => {
  const perSecond = (block: Block): Block => ({
    ...block,
    value: 1e6 / (block.cpuUsEach ?? Number.NaN),
    doubts: block.doubts.filter((doubt) => doubt !== CLIENT_SATURATED),
  });
  return pairs.map(({ ours, against }) => ({ ours: perSecond(ours), against: perSecond(against) }));
};

/** Rows for a rate per second, and per second of the server's CPU time. `unit`: what is counted. */
export const rateRows = (about: Omit<About, "unit">, unit: string, pairs: readonly Pair[]): Row[] => [
  compare({ ...about, unit: `${unit}/s` }, pairs),
  compare({ ...about, name: `${about.name} by CPU`, unit: `${unit}/CPU s` }, perCpuSecond(pairs)),
];

/** Uncounted seconds in which compilers and caches warm up. */
export const WARM_S = 2;

/** On a busy machine, up to so many times the rounds are played to get enough undisturbed ones. */
const PATIENCE = 3;

export const playRounds = async (rounds: number, play: (round: number) => Promise<Pair>): Promise<Pair[]> => {
  const pairs: Pair[] = [];
  while (pairs.filter(isClean).length < rounds && pairs.length < rounds * PATIENCE) {
    pairs.push(await play(pairs.length));
  }
  return pairs;
};

const SEED = 1;

/** Plays one uncounted block per side (none if `warmS` is 0), then the rounds; the side that begins changes as in the gate. */
export const inTurn = async (
  { rounds, blockS, warmS = WARM_S }: { rounds: number; blockS: number; warmS?: number },
  ours: (durationS: number) => Promise<Block>,
  against: (durationS: number) => Promise<Block>,
): Promise<Pair[]> => {
  const play = { base: against, head: ours };
  for (const side of warmS === 0 ? [] : SIDES) await play[side](warmS);
  return playRounds(rounds, async (round) => {
    const blocks: Partial<Record<Side, Block>> = {};
    for (const side of orderOf(SEED, round)) blocks[side] = await play[side](blockS);
    return { ours: blocks.head as Block, against: blocks.base as Block };
  });
};

const STEAL_MAX = 0.02;
const OTHERS_MAX_CORES = 0.25;

/** Starts watching; the returned function tells how other programs disturbed us. Children of this process count as ours. */
export const watchHost = (): (() => string[]) => {
  const before = machineTime();
  const usedSince = watchMachineUse(null);
  return () => {
    const after = machineTime();
    const { other_cores: others } = usedSince();
    const isStolen =
      before !== null && after !== null && after.steal - before.steal > STEAL_MAX * (after.all - before.all);
    return [
      ...(isStolen ? ["the hypervisor took CPU time"] : []),
      ...(others !== null && others > OTHERS_MAX_CORES ? ["other processes used the CPU"] : []),
    ];
  };
};

export const blockOf = async (measure: () => Promise<number>): Promise<Block> => {
  const disturbed = watchHost();
  return plainBlock(await measure(), { disturbances: disturbed() });
};

const COLUMNS = [23, 8, 8, 7, 7, 9, 9] as const;
const HEAD = ["bench", "target", "ratio", "min", "max", "ours", "against"];

const line = (cells: readonly string[]): string =>
  cells
    .map((cell, at) => (at === 0 ? cell.padEnd(COLUMNS[0]) : cell.padStart(COLUMNS[at] ?? 0)))
    .join("")
    .trimEnd();

const targetText = (target: Target | null): string =>
  target === null ? "-" : "atLeast" in target ? `>= ${target.atLeast}` : `<= ${target.atMost}`;

/** Formats a number with about three significant digits and `M` or `k`. */
export const short = (value: number): string => {
  if (!Number.isFinite(value)) return "-";
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)}M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)}k`;
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
};

const MARKS: Partial<Record<Row["verdict"], string>> = { missed: " MISSED", "too-wide": " WIDE" };

const rowText = (row: Row): string[] => {
  const figures = [row.ratio, row.ratioMin, row.ratioMax];
  const cells = figures.map((value) => (Number.isFinite(value) ? value.toFixed(2) : "-"));
  const mark = MARKS[row.verdict] ?? (row.doubts.length > 0 ? " ?" : "");
  const text = [line([row.name, targetText(row.target), ...cells, short(row.ours), short(row.against)]) + mark];
  if (row.leftOut > 0)
    text.push(`  of ${row.rounds + row.leftOut} pairs, ${row.leftOut} left out: others disturbed them`);
  if (row.verdict === "too-wide") {
    const percent = Math.round(spreadOf(row) * 100);
    text.push(`  spread too wide: the rounds lie ${percent} % of the ratio apart, more than a fifth`);
  }
  for (const doubt of row.doubts) text.push(`  not to be trusted: ${doubt}`);
  return text;
};

/** Formats the rows as a table of 80 columns: ratios with their spread, then the medians behind them. */
export const tableOf = (rows: readonly Row[], skipped: readonly { name: string; reason: string }[]): string =>
  [
    line(HEAD),
    ...rows.flatMap(rowText),
    ...skipped.map(({ name, reason }) => `${name.padEnd(COLUMNS[0])} SKIPPED: ${reason}`),
    "ratio: ours over against, typical of the rounds. by CPU: for a second of the",
    "server's CPU time, which stands also where the client was the bottleneck.",
  ].join("\n");

// `floodgate load` as users run it: a process of its own, its target in a file, its figures in the run folder.

/** `cores`: average while k6 ran; `rssBytes`: the peak. */
type ProcessUse = { cores: number; rssBytes: number };

const EVERY_MS = 200;
/** k6 counts from this look on; before, it reads its scripts. */
const BEGUN_LOOKS = 10;

/** The script that a node process runs; the name of the command for all others. */
const nameOf = (pid: number): string => {
  const script = /([\w-]+)\.(?:ts|mjs)/.exec(readProc(`/proc/${pid}/cmdline`) ?? "")?.[1];
  const command = readProc(`/proc/${pid}/comm`)?.trim() ?? "";
  return command.startsWith("node") ? (script ?? command) : command;
};

const rssBytesOf = (pid: number): number =>
  1024 * Number(/^VmRSS:\s+(\d+)/m.exec(readProc(`/proc/${pid}/status`) ?? "")?.[1] ?? 0);

/** Watches this process and its descendants by name. The returned function ends that; cores count only while k6 runs. */
const watchProcesses = (): (() => Map<string, ProcessUse>) => {
  const seen = new Map<number, { looks: number; ticks: number }>();
  const used = new Map<string, { ticks: number; rssBytes: number }>();
  let busyS = 0;
  const look = (): void => {
    const stats = statsHere();
    const now = [...treeOf(process.pid, stats)].map((pid) => {
      const ticks = stats.get(pid)?.ticks ?? 0;
      const was = seen.get(pid) ?? { looks: 0, ticks };
      seen.set(pid, { looks: was.looks + 1, ticks });
      // Read anew: a process that has just been forked has its parent's name.
      const name = nameOf(pid);
      const isBusy = name === "k6" && was.looks >= BEGUN_LOOKS;
      return { name, isBusy, ticks: ticks - was.ticks, rssBytes: rssBytesOf(pid) };
    });
    const isBusy = now.some((one) => one.isBusy);
    if (isBusy) busyS += EVERY_MS / 1000;
    for (const [name, same] of Map.groupBy(now, (one) => one.name)) {
      const use = known(used, name, () => ({ ticks: 0, rssBytes: 0 }));
      if (isBusy) use.ticks += sumOf(same.map(({ ticks }) => ticks));
      use.rssBytes = Math.max(use.rssBytes, sumOf(same.map(({ rssBytes }) => rssBytes)));
    }
  };
  const timer = setInterval(look, EVERY_MS);
  return () => {
    clearInterval(timer);
    const cores = (ticks: number): number => ticks / TICKS_PER_S / busyS;
    return new Map([...used].map(([name, { ticks, rssBytes }]) => [name, { cores: cores(ticks), rssBytes }]));
  };
};

const KEY = "FLOODGATE_BENCH_NULL";
const RUN_MS = 600_000;

/** Writes a target file for a bare server, which checks no key, and returns its path. */
export const writeTarget = ({ folder }: BenchRoom, url: string, limits?: Record<string, number>): string => {
  const file = join(mkdtempSync(join(folder, "target-")), "target.json");
  const target = {
    ...{ schema: "floodgate/target@1", name: "bare server", base_url: url },
    credentials: { server: { key: `env:${KEY}` } },
    permits: { load_max_rps: 1_000_000 },
    limits,
  };
  writeFileSync(file, JSON.stringify(target));
  return file;
};

/** `used`: by name, of the runner (`floodgate`), k6 and the benchmark's server. `disturbances`: by other programs. */
export const recordLoad = async (
  { supervisor, folder }: BenchRoom,
  words: readonly string[],
  environment: Record<string, string> = {},
) => {
  const out = join(mkdtempSync(join(folder, "run-")), "run");
  const child = await supervisor.start({
    name: "load",
    command: process.execPath,
    args: [join(REPOSITORY, "src/cli/floodgate.mjs"), "load", ...words, "--out", out, "--quiet"],
    ends: "by-signal",
    env: { [KEY]: "svc_sk_live_bench", ...environment },
  });
  const [used, disturbed] = [watchProcesses(), watchHost()];
  using _late = setTimeout(() => void child.stop(), RUN_MS);
  await child.exited;
  const disturbances = disturbed();
  const document = JSON.parse(readFileSync(join(out, "run.json"), "utf8")) as RunDocument;
  return { document, folder: out, used: used(), disturbances };
};

/** The named measurement of the first stage that has it, else `NaN`. */
export const figureOf = ({ measurements }: RunDocument, name: string): number =>
  measurements.find((one) => one.name === name)?.value ?? Number.NaN;
