/**
 * When a figure about time may not be believed. A claim about time is left open when a disturbance can explain its verdict: a load
 * that did not leave as meant, or a generator that measures wrongly, explains a pass as well; what only makes calls slower
 * explains a failure. Other claims are never touched. Each rule states its threshold and where that comes from.
 */
import type { Calibration } from "./run-document.ts";
import type { HostFacts, StageHost } from "./stage-host.ts";

/** `tail`: the share of the slowest calls that decides a claim, 0.01 for a p99; `limitMs`: the time that it compares with. */
export type AboutTime = { tail: number; limitMs: number };

/** `always`: the claim may neither pass nor fail; `ifFailed`: it may not fail. */
type TimeDoubts = { always: string[]; ifFailed: string[] };

/** A generator's schedule lag and event loop have to be within 5 ms (p99), its rate within 1 %. */
const LAG_MS = 5;
const RATE_ERROR = 0.01;
/** Against a limit of seconds, lateness of a tenth of it changes nothing (as in capacity/generator-limit.ts). */
const LAG_OF_LIMIT = 0.1;
/** Above this share of its CPU a generator is a bottleneck of its own. */
const GENERATOR_CPU = 0.7;
/**
 * In a queue with one server that is busy for a share s of the time, waiting and service together take 1 / (1 - s) as long
 * (M/M/1; Kleinrock, "Queueing Systems" I, section 3.2): s = 0.5 doubles every time, s = 0.1 adds about a tenth.
 */
const OTHERS_HALF = 0.5;
const OTHERS_TENTH = 0.1;
/** The same formula: 5 % stolen adds 5 %, which is what a stall may be off by; 95 % busy is 20 times. */
const STEAL = 0.05;
export const BUSY = 0.95;
/** A group that is held back stands still until its next period: in more of the time than this it moves a p99. */
const THROTTLED = 0.01;
/**
 * A lost SYN is sent again after a second (RFC 6298, section 2; measured: first events of 0.8 to 5 s beside 259 of them). When they
 * are a tenth of the calls that decide a claim they move it.
 */
const OF_TAIL = 0.1;
/** The default budget of a dependency: the limiter's, the shorter of the two. */
const LIMITER_BUDGET_MS = 250;
/** Beyond this the kernel searches long for a free port, and the next burst meets the limit. */
const NEARLY_USED_UP = 0.8;

const percent = (share: number): string => `${Number((share * 100).toFixed(share < 0.1 ? 1 : 0))} %`;
const ms = (value: number): string => `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;

/** A doubt about a figure that is known and above what may be. */
const above = (value: number | null | undefined, most: number, said: (value: number) => string): string[] =>
  value != null && value > most ? [said(value)] : [];

const NAMED_MAX = 3;
const figureOf = (value: number): string => String(Math.round(value * 100) / 100);

const matters = ({ about, truth, measured, unit }: Calibration, limitMs: number): boolean => {
  if (unit === "ms") return Math.abs(measured - truth) > LAG_OF_LIMIT * limitMs;
  // Moments that are a little off make another shape; against a limit that is far above them that is nothing.
  return about !== "arrivals" || LAG_OF_LIMIT * limitMs < LAG_MS;
};

/** What checks that failed mean for a claim that compares with a time (`limitMs`), as sentences. */
export const calibrationDoubts = (checks: readonly Calibration[], limitMs: number): string[] => {
  const failed = checks.filter((check) => matters(check, limitMs));
  if (failed.length === 0) return [];
  const named = failed.slice(0, NAMED_MAX).map(({ name, truth, measured, unit }) => {
    const of = unit === "ratio" || unit === "1" ? "" : ` ${unit}`;
    return `${name} was ${figureOf(measured)} and should be ${figureOf(truth)}${of}`;
  });
  const more = failed.length - named.length;
  // Where a driver does not hold three times the rate, a part of the schedule is all that is asked of each process.
  const parts = failed
    .filter(({ about, measured }) => (about === "rate" || about === "ceiling") && measured > 0)
    .map(({ truth, measured }) => Math.ceil(truth / measured));
  const advice = ` (${Math.max(...parts)} times as many processes would hold it: \`load --segments\`, or a lower rate)`;
  return [`calibration: ${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}${parts.length === 0 ? "" : advice}`];
};

/** How late the calls at a share of all were, by the next share that is known; 0 where none is. */
const lagAt = ({ lag_ms: known }: StageHost, share: number): number =>
  (known.find(([at]) => at >= share - 1e-9) ?? known.at(-1))?.[1] ?? 0;

const stolen = (host: HostFacts | null): string[] =>
  above(host?.steal_share, STEAL, (share) => `the hypervisor took ${percent(share)} of the CPU`);

/**
 * Why the whole machine, with the deployment on it, may have stood still for longer than a dependency's budget (`budgetMs`): what was
 * refused then was refused rightly. Half of the budget in the generator's own calls, or time stolen from it, shows that it did.
 */
export const standstillDoubts = (stage: StageHost, budgetMs = LIMITER_BUDGET_MS): string[] => [
  ...stolen(stage.host),
  ...above(lagAt(stage, 0.99), budgetMs / 2, (lag) => `one call in a hundred left ${ms(lag)} late or later`),
];

/** Why a claim about time in this stage may not have a verdict. */
export const timeDoubts = (stage: StageHost, { tail, limitMs }: AboutTime): TimeDoubts => {
  const { host, cores, calls } = stage;
  /** Lateness that changes something about the time. */
  const lateMs = Math.max(LAG_MS, LAG_OF_LIMIT * limitMs);
  const others = (stage.other_cores ?? 0) / cores;
  const byOthers = [`other programs used ${(stage.other_cores ?? 0).toFixed(1)} of ${cores} cores`];
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
      ...above(host?.throttled_share, THROTTLED, (share) => {
        return `the limit of our control group held it back for ${percent(share)} of the time`;
      }),
      ...(others > OTHERS_HALF ? byOthers : []),
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
      ...(others > OTHERS_TENTH && others <= OTHERS_HALF ? byOthers : []),
    ],
  };
};

/** Everything worth a note, whatever a claim is about; what the calibration found stands in a place of its own. */
export const hostNotesOf = (stage: StageHost): string[] => {
  const { always, ifFailed } = timeDoubts({ ...stage, calibration: [] }, { tail: 0.01, limitMs: 0 });
  return [...always, ...ifFailed];
};

/** The doubts that take a verdict about time away; none for a verdict that is no decision. */
export const doubtsAgainst = (verdict: string, { always, ifFailed }: TimeDoubts): string[] => {
  if (verdict === "pass") return always;
  return verdict === "fail" ? [...always, ...ifFailed] : [];
};

export const inDoubt = (doubts: readonly string[], otherwise: string): string =>
  `time could not be judged: ${doubts.join("; ")}. Without that: ${otherwise}`;
