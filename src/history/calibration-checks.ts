/** Compares a driver's measurements with the stub's stamps. A failed check leaves only claims about time open. */
import type { CallLine } from "./line.ts";
import type { Calibration } from "./run-document.ts";
import { kolmogorovDistance, kolmogorovLimit, quantile, sumOf } from "./statistics/statistics.ts";

/** How the stub answered: at once, after a known delay, or with events one after the other. */
export type StampKind = "at once" | "delayed" | "stream";

/** `id`: the received `X-Request-Id`; `answered_us`: the answer, or first event, was written. */
export type Stamp = { id: string; kind: StampKind } & Record<"received_us" | "answered_us" | "last_us", number>;

/** Calls per second that the schedule has in the first two phases, and in the third. */
type Rates = "ratePerS" | "ceilingPerS";
/** After the start: when calls begin to count, when the phase with the stall begins and ends; and how long the stall lasted. */
type Phases = "warmUs" | "steadyUs" | "stalledUs" | "stoodStillUs";
export type CalibrationPlay = Record<Rates | Phases, number> & {
  driver: string;
  /** Microseconds after the start, ascending. */
  schedule: readonly number[];
  arrivals: "uniform" | "poisson";
  lines: readonly CallLine[];
  stamps: readonly Stamp[];
};

type Witnessed = { dueUs: number; line: CallLine; stamp: Stamp };

/**
 * Lines that have a stamp and a place in the schedule. `startUs`: when the schedule began, by the stub's clock, taken as the
 * latest moment by which no call came early.
 */
const witnessed = ({ schedule, lines, stamps }: CalibrationPlay): { startUs: number; calls: Witnessed[] } => {
  const byId = new Map(stamps.map((stamp) => [stamp.id, stamp]));
  const found = lines.flatMap((line) => {
    const stamp = byId.get(line.id);
    // The number of a call stands at the end of its id (workload/step.ts).
    const offset = schedule[Number(/-(\d+)$/.exec(line.id)?.[1] ?? Number.NaN)];
    return stamp === undefined || offset === undefined ? [] : [{ offset, line, stamp }];
  });
  const startUs = found.reduce((least, { offset, stamp }) => Math.min(least, stamp.received_us - offset), Infinity);
  return { startUs, calls: found.map(({ offset, line, stamp }) => ({ dueUs: startUs + offset, line, stamp })) };
};

/** Allowed error on a known delay: every good tool was within 0.7 ms at the median and 2.8 ms at p99. */
const DELAY_MS = { p50: 0.8, p99: 3 } as const;
/** Allowed error of a measured stall: a share of its length, plus 1 ms for the clock's step and one event-loop turn. */
const STALL_SHARE = 0.02;
const STALL_SLACK_MS = 1;
const DISPERSION = 0.1;
const EVENT_MS = 2;
/** Clocks of one host that differ by less cannot be distinguished from the time of a system call. */
const CLOCK_MS = 0.1;
/** A rate counts as held from this share on, because one late last call lowers the measured rate. */
export const CEILING_SHARE = 0.95;
const ENOUGH = 30;
const STALL_LEAST_US = 100_000;
const WINDOW_CALLS = 6;

type Check = Pick<Calibration, "name" | "about" | "truth" | "measured" | "unit"> & { isHeld: boolean | null };

/** `n`: the number of calls; a check with fewer than `ENOUGH` stays open. */
const check = (
  [name, unit, about]: readonly [name: string, unit: string, about?: Calibration["about"]],
  { truth, measured, n }: { truth: number; measured: number; n: number },
  isHeld: boolean,
): Check => ({ name, ...(about && { about }), truth, measured, unit, isHeld: n < ENOUGH ? null : isHeld });

const ms = (us: number): number => us / 1000;
const at = (values: readonly number[], p: number): number => quantile(values, p) ?? 0;

const quantiles = (
  kind: string,
  calls: readonly Witnessed[],
  truthMs: (call: Witnessed) => number,
  shares: readonly number[],
  allowedMs: (truth: number, p: number) => number,
): Check[] => {
  const found = calls.map(({ line }) => ms(line.done_us - line.intended_us));
  return shares.map((p) => {
    const [truth, measured] = [at(calls.map(truthMs), p), at(found, p)];
    const isHeld = Math.abs(measured - truth) <= allowedMs(truth, p);
    return check([`${kind}, p${p * 100}`, "ms"], { truth, measured, n: calls.length }, isHeld);
  });
};

const delay = (calls: readonly Witnessed[]): Check[] => {
  const delayed = calls.filter(({ stamp }) => stamp.kind === "delayed");
  const truthMs = ({ stamp }: Witnessed): number => ms(stamp.answered_us - stamp.received_us);
  return quantiles("known delay", delayed, truthMs, [0.5, 0.99], (_, p) => (p === 0.5 ? DELAY_MS.p50 : DELAY_MS.p99));
};

/** The true wait of a call in the stall lasts from the moment due to the stub's answer. */
const stall = (calls: readonly Witnessed[], stoodStillUs: number): Check[] => {
  const plain = calls.filter(({ stamp }) => stamp.kind !== "stream");
  const truthMs = ({ dueUs, stamp }: Witnessed): number => ms(stamp.answered_us - dueUs);
  const allowedMs = (truth: number): number => STALL_SHARE * truth + STALL_SLACK_MS;
  const checks = quantiles("known stall", plain, truthMs, [0.9, 0.99], allowedMs);
  return stoodStillUs >= STALL_LEAST_US ? checks : checks.map((one) => ({ ...one, isHeld: null }));
};

/** Variance over mean of the counts in windows of equal length: 1 for random arrivals, 0 for evenly spaced ones. */
const dispersion = (timesUs: readonly number[], windowUs: number, count: number): number => {
  const counts = new Array<number>(count).fill(0);
  for (const time of timesUs) {
    const window = Math.floor(time / windowUs);
    if (window >= 0 && window < count) counts[window]! += 1;
  }
  const mean = sumOf(counts) / count;
  return counts.reduce((sum, n) => sum + (n - mean) ** 2, 0) / (count - 1) / mean;
};

const arrivals = (play: CalibrationPlay, startUs: number, calls: readonly Witnessed[]): Check[] => {
  const windowUs = (WINDOW_CALLS / play.ratePerS) * 1e6;
  const windows = Math.floor((play.steadyUs - play.warmUs) / windowUs);
  const what = ["arrivals, dispersion", "ratio", "arrivals"] as const;
  const n = calls.length;
  if (windows < 2 || n < ENOUGH) return [check(what, { truth: 1, measured: 0, n: 0 }, false)];
  const seen = calls.map(({ stamp }) => stamp.received_us - startUs - play.warmUs).sort((a, b) => a - b);
  const due = play.schedule.map((offset) => offset - play.warmUs);
  const [truth, measured] = [dispersion(due, windowUs, windows), dispersion(seen, windowUs, windows)];
  const spread = check(what, { truth, measured, n }, Math.abs(measured - truth) <= DISPERSION * Math.max(1, truth));
  if (play.arrivals !== "poisson") return [spread];
  const gaps = seen.slice(1).map((time, i) => time - (seen[i] as number));
  gaps.sort((a, b) => a - b);
  const limit = kolmogorovLimit(gaps.length, 0.001);
  const distance = kolmogorovDistance(gaps, (us) => 1 - Math.exp((-us / 1e6) * play.ratePerS));
  const shape = ["arrivals, Kolmogorov-Smirnov (at most)", "ratio", "arrivals"] as const;
  return [spread, check(shape, { truth: limit, measured: distance, n }, distance <= limit)];
};

/** The rate at which the stub received calls: late and missing calls lower it. */
const ceiling = (play: CalibrationPlay, startUs: number, calls: readonly Witnessed[]): Check => {
  const { schedule, stalledUs, ceilingPerS } = play;
  const due = schedule.filter((offset) => offset >= stalledUs);
  const seen = calls.filter(({ dueUs }) => dueUs - startUs >= stalledUs);
  const lastDue = due.at(-1) ?? stalledUs;
  const lastSeen = seen.reduce((last, { stamp }) => Math.max(last, stamp.received_us - startUs), lastDue);
  const inTime = (lastDue - stalledUs) / Math.max(1, lastSeen - stalledUs);
  const measured = due.length === 0 ? 0 : ceilingPerS * inTime * (seen.length / due.length);
  const figures = { truth: ceilingPerS, measured, n: due.length };
  return check(["null server, rate held", "1/s", "rate"], figures, measured >= CEILING_SHARE * ceilingPerS);
};

/** The largest contradiction: a call that was sent after the stub received it, or ended before the stub answered. */
const clock = (calls: readonly Witnessed[]): Check => {
  const worst = calls.reduce(
    (most, { line, stamp }) => Math.max(most, line.sent_us - stamp.received_us, stamp.last_us - line.done_us),
    0,
  );
  const stated = Math.max(0, ...calls.map(({ line }) => line.clock_error_us));
  const figures = { truth: 0, measured: ms(worst), n: calls.length };
  return check(["clock error", "ms"], figures, ms(worst) <= Math.max(ms(stated), CLOCK_MS));
};

const events = (calls: readonly Witnessed[]): Check[] => {
  const streams = calls.filter(({ stamp, line }) => stamp.kind === "stream" && line.first_event_us !== undefined);
  const error = (name: string, errorUs: (call: Witnessed) => number): Check => {
    const errors = streams.map((call) => Math.abs(errorUs(call)));
    const measured = ms(at(errors, 0.99));
    return check([name, "ms"], { truth: 0, measured, n: streams.length }, measured <= EVENT_MS);
  };
  return [
    error("first event, error p99", ({ line, stamp }) => (line.first_event_us as number) - stamp.answered_us),
    error("last event, error p99", ({ line, stamp }) => line.done_us - stamp.last_us),
  ];
};

export const calibrationChecks = (play: CalibrationPlay): Calibration[] => {
  const { startUs, calls } = witnessed(play);
  const between = (fromUs: number, toUs: number): Witnessed[] =>
    calls.filter(({ dueUs }) => dueUs - startUs >= fromUs && dueUs - startUs < toUs);
  const steady = between(play.warmUs, play.steadyUs);
  const truth = play.schedule.length;
  const isOneToOne = [calls.length, play.lines.length, play.stamps.length].every((count) => count === truth);
  const checks: Check[] = [
    ceiling(play, startUs, calls),
    ...delay(steady),
    ...stall(between(play.steadyUs, play.stalledUs), play.stoodStillUs),
    ...arrivals(play, startUs, steady),
    clock(calls),
    ...events(steady),
    { name: "calls, one to one", truth, measured: calls.length, unit: "1", isHeld: isOneToOne },
  ];
  return checks.map(({ name, isHeld, ...figures }) => ({
    name: `${play.driver}: ${name}`,
    driver: play.driver,
    ...figures,
    verdict: isHeld === null ? "inconclusive" : isHeld ? "pass" : "fail",
  }));
};

export const failedChecks = (checks: readonly Calibration[], driver: string): Calibration[] =>
  checks.filter((check) => check.verdict !== "pass" && check.driver === driver);
