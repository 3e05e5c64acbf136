/**
 * Decides when claims about time are inconclusive. A load that left late, or a generator that measures wrongly, may explain a pass
 * or a failure; a disturbance that only slows calls may explain a failure.
 */
import { someOf } from "../contract/lists.ts";
import type { Calibration, HostFacts, StageHost } from "./run-document.ts";

/** `tail`: the share of the slowest calls that decides a claim, 0.01 for a p99; `limitMs`: the time that it compares with. */
export type AboutTime = { tail: number; limitMs: number };

/** `always` forbids a pass and a failure, `ifFailed` only a failure. */
type TimeDoubts = { always: string[]; ifFailed: string[] };

/** A generator's schedule lag and event loop have to be within 5 ms (p99), its rate within 1 %. */
const LAG_MS = 5;
const RATE_ERROR = 0.01;
/** Lateness up to a tenth of a claim's limit changes nothing. */
const LAG_OF_LIMIT = 0.1;
/**
 * With one server that is busy for a share s of the time, waiting and service together take 1 / (1 - s) times as long
 * (M/M/1; Kleinrock, "Queueing Systems" I, section 3.2): s = 0.5 doubles every time, s = 0.1 adds about a tenth.
 */
export const OTHERS_HALF = 0.5;
export const OTHERS_TENTH = 0.1;
/**
 * By the same formula a generator that uses 70 % of its CPU adds to each time more than twice its own work on a call. Whether it
 * sent the calls at all is another question: there 90 % are allowed (`capacity/generator-limit.ts`).
 */
const GENERATOR_CPU = 0.7;
/** 5 % stolen time adds 5 %, and 95 % busy takes 20 times as long. */
const STEAL = 0.05;
export const BUSY = 0.95;
/** A throttled control group stands still until its next period; above this share of the time it moves a p99. */
const THROTTLED = 0.01;
/** A lost SYN is sent again after a second (RFC 6298, section 2). Lost SYNs move a claim if they are a tenth of the calls that decide it. */
const OF_TAIL = 0.1;
/** The default budget of a dependency: the limiter's, which is shorter than the key service's. */
const LIMITER_BUDGET_MS = 250;
/** Beyond this share the kernel searches long for a free port, and the next burst may reach the limit. */
const NEARLY_USED_UP = 0.8;

const percent = (share: number): string => `${Number((share * 100).toFixed(share < 0.1 ? 1 : 0))} %`;
const ms = (value: number): string => `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;

/** The sentence about a figure, if that is known and above `most`. */
const above = (value: number | null | undefined, most: number, said: (value: number) => string): string[] =>
  value != null && value > most ? [said(value)] : [];

const NAMED_MAX = 3;
const figureOf = (value: number): string => String(Math.round(value * 100) / 100);

const matters = ({ about, truth, measured, unit }: Calibration, limitMs: number): boolean => {
  if (unit === "ms") return Math.abs(measured - truth) > LAG_OF_LIMIT * limitMs;
  // Arrivals that are shifted a little change the shape of the load; a limit that is much longer does not notice it.
  return about !== "arrivals" || LAG_OF_LIMIT * limitMs < LAG_MS;
};

/** What failed checks mean for a claim that compares with a time. */
export const calibrationDoubts = (checks: readonly Calibration[], limitMs: number): string[] => {
  const failed = checks.filter((check) => matters(check, limitMs));
  if (failed.length === 0) return [];
  const named = failed.map(({ name, truth, measured, unit }) => {
    const of = unit === "ratio" || unit === "1" ? "" : ` ${unit}`;
    return `${name} was ${figureOf(measured)} and should be ${figureOf(truth)}${of}`;
  });
  // If one process does not hold the rate, several can each send a part of the schedule.
  const parts = failed
    .filter(({ about, measured }) => (about === "rate" || about === "ceiling") && measured > 0)
    .map(({ truth, measured }) => Math.ceil(truth / measured));
  const advice = ` (${Math.max(...parts)} times as many processes would hold it: \`load --segments\`, or a lower rate)`;
  return [`calibration: ${someOf(named, NAMED_MAX)}${parts.length === 0 ? "" : advice}`];
};

/** The lag that a share of the calls does not exceed, by the next known share; 0 if none is known. */
const lagAt = ({ lag_ms: known }: StageHost, share: number): number =>
  (known.find(([at]) => at >= share - 1e-9) ?? known.at(-1))?.[1] ?? 0;

const stolen = (host: HostFacts | null): string[] =>
  above(host?.steal_share, STEAL, (share) => `the hypervisor took ${percent(share)} of the CPU`);

/** The share of all cores that other programs used: all those of which it is not known that the run or the deployment started them. */
const shareOfOthers = ({ other_cores: used, cores }: StageHost): number => (used ?? 0) / cores;
/** Without calls these programs do next to nothing, so they are taken for parts of the deployment. */
const workForCalls = ({ idle_other_cores: idle, cores }: StageHost): boolean =>
  idle !== undefined && idle / cores <= OTHERS_TENTH;
const othersUsed = (stage: StageHost): string => {
  const used = `used ${(stage.other_cores ?? 0).toFixed(1)} of ${stage.cores} cores`;
  return workForCalls(stage)
    ? `programs that are idle without calls ${used}: the deployment, behind a local proxy or in a container`
    : `other programs ${used}`;
};

const heldBack = (share: number) => `the limit of our control group held it back for ${percent(share)} of the time`;

/** Reasons why the whole machine, with the deployment on it, may have stood still for longer than a dependency's budget. */
export const standstillDoubts = (stage: StageHost, budgetMs = LIMITER_BUDGET_MS): string[] => [
  ...stolen(stage.host),
  // A deployment on a machine that others fill may get next to nothing of it.
  ...((stage.host?.busy_share ?? 0) > BUSY && shareOfOthers(stage) > OTHERS_HALF ? [othersUsed(stage)] : []),
  ...above(stage.host?.throttled_share, OTHERS_HALF, heldBack),
  ...above(lagAt(stage, 0.99), budgetMs / 2, (lag) => `one call in a hundred left ${ms(lag)} late or later`),
];

/** CPU time that the deployment itself uses makes no answer faster, so it puts no pass in doubt. */
const tookHalf = (stage: StageHost): boolean => shareOfOthers(stage) > OTHERS_HALF && !workForCalls(stage);

/**
 * Returns doubts where the generator and the deployment did not get their CPU time. Every call then waits for it, which hides
 * a limit as well as a difference between two deployments.
 */
export const machineDoubts = (stage: StageHost): string[] => [
  ...above(stage.host?.throttled_share, THROTTLED, heldBack),
  ...(tookHalf(stage) ? [othersUsed(stage)] : []),
];

export const timeDoubts = (stage: StageHost, { tail, limitMs }: AboutTime): TimeDoubts => {
  const { host, calls } = stage;
  /** The smallest lateness that matters. */
  const lateMs = Math.max(LAG_MS, LAG_OF_LIMIT * limitMs);
  const coresMost = host?.cpu_share_max ?? 0;
  const many = (count: number | null | undefined, what: string): string[] =>
    count != null && count > 0 && count >= OF_TAIL * tail * calls ? [`${count} ${what}`] : [];
  return {
    always: [
      ...calibrationDoubts(stage.calibration, limitMs),
      ...stage.generator,
      ...above(lagAt(stage, 1 - tail), lateMs, (by) => `${percent(tail)} of the calls left ${ms(by)} late or later`),
      ...above(-(stage.rate_error ?? 0), RATE_ERROR, (by) => {
        return `calls left ${percent(by)} slower than was meant (at most ${percent(RATE_ERROR)} may be)`;
      }),
      ...above(host?.event_loop_lag_ms_p99, lateMs, (by) => `the generator's event loop was ${ms(by)} late (p99)`),
      ...above(host?.cpu_share, GENERATOR_CPU * coresMost, (cpu) => {
        return `the generator used ${cpu.toFixed(2)} of the ${coresMost} cores that it can use`;
      }),
      ...machineDoubts(stage),
    ],
    ifFailed: [
      ...stolen(host),
      ...above(host?.busy_share, BUSY, (share) => `${percent(share)} of all cores' time was in use`),
      ...many(host?.syn_retransmits, "SYN retransmits"),
      ...many(host?.listen_overflows, "accept-queue overflows"),
      ...above(host?.ports_share, NEARLY_USED_UP, (share) => `${percent(share)} of the ephemeral ports were in use`),
      ...above(host?.descriptors_share, NEARLY_USED_UP, (share) => {
        return `the generator had ${percent(share)} of the files open that it may have`;
      }),
      ...(shareOfOthers(stage) > OTHERS_TENTH && !tookHalf(stage) ? [othersUsed(stage)] : []),
    ],
  };
};

/** As notes of a report, where the calibration has its own place. */
export const hostNotesOf = (stage: StageHost): string[] => {
  const { always, ifFailed } = timeDoubts({ ...stage, calibration: [] }, { tail: 0.01, limitMs: 0 });
  return [...always, ...ifFailed];
};

/** Says who causes the doubts about time: the generator, if any is its own, else the machine. */
export const codeOfDoubts = (stage: StageHost, about: AboutTime) =>
  timeDoubts(stage, about).always.length > machineDoubts(stage).length
    ? "generator-was-the-limit"
    : "machine-disturbed";

export const doubtsAgainst = (verdict: string, { always, ifFailed }: TimeDoubts): string[] => {
  if (verdict === "pass") return always;
  return verdict === "fail" ? [...always, ...ifFailed] : [];
};

export const inDoubt = (doubts: readonly string[], otherwise: string): string =>
  `time could not be judged: ${doubts.join("; ")}. Without that: ${otherwise}`;
