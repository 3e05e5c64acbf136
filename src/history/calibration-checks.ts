/** Compares what a driver measured with what the stub stamped; a check that fails leaves claims about time open, no others. */
import type { CallLine } from "./line.ts";
import type { Calibration } from "./run-document.ts";
import { sumOf } from "./series.ts";
import { kolmogorovDistance, kolmogorovLimit } from "./statistics/distributions.ts";
import { quantile } from "./statistics/statistics.ts";

/** How the stub answered: at once, after a known delay, or with events one after the other. */
export type StampKind = "at once" | "delayed" | "stream";

/** `id`: `X-Request-Id` as it came; `answered_us`: the answer was written, or the first event; `last_us`: the last event. */
export type Stamp = { id: string; kind: StampKind } & Record<"received_us" | "answered_us" | "last_us", number>;

/** Calls per second in the first two phases, and in the third. */
type Rates = "ratePerS" | "ceilingPerS";
/** After the start: the driver is warm and calls count, the stub begins to stall, the stall is over; how long it found it was. */
type Phases = "warmUs" | "steadyUs" | "stalledUs" | "stoodStillUs";
export type CalibrationPlay = Record<Rates | Phases, number> & {
  driver: string;
  /** Microseconds after the start, ascending. */
  schedule: readonly number[];
  arrivals: "uniform" | "poisson";
  lines: readonly CallLine[];
  stamps: readonly Stamp[];
};

/** A call as the schedule meant it, the driver saw it and the stub saw it. */
type Witnessed = { dueUs: number; line: CallLine; stamp: Stamp };

/**
 * Pairs each call of the schedule with its line and its stamp. What lacks either is left out, and counted by its absence.
 * `startUs`: when arrival 0 was due, by the stub: the earliest start with which no call came before its time.
 */
const witnessed = ({ schedule, lines, stamps }: CalibrationPlay): { startUs: number; calls: Witnessed[] } => {
  const byId = new Map(stamps.map((stamp) => [stamp.id, stamp]));
  const found = lines.flatMap((line) => {
    const stamp = byId.get(line.id);
    // The number of a call stands at the end of its id (workload/request.ts).
    const offset = schedule[Number(/-(\d+)$/.exec(line.id)?.[1] ?? Number.NaN)];
    return stamp === undefined || offset === undefined ? [] : [{ offset, line, stamp }];
  });
  const startUs = found.reduce((least, { offset, stamp }) => Math.min(least, stamp.received_us - offset), Infinity);
  return { startUs, calls: found.map(({ offset, line, stamp }) => ({ dueUs: startUs + offset, line, stamp })) };
};

/** Of a known delay: measured, every good tool is within 0.7 ms at the median and 2.8 ms at p99. */
const DELAY_MS = { p50: 0.8, p99: 3 } as const;
/** Of the truth; and what a millisecond clock and a turn of a loop are worth on top. */
const STALL_SHARE = 0.02;
const STALL_SLACK_MS = 1;
const DISPERSION = 0.1;
const EVENT_MS = 2;
/** Two clocks of one host that differ by less cannot be told from the time of a system call. */
const CLOCK_MS = 0.1;
/** The end of the last phase is a single call: late by so much a rate still was held. */
export const CEILING_SHARE = 0.95;
/** Fewer than this show nothing. */
const ENOUGH = 30;
const STALL_LEAST_US = 100_000;
const WINDOW_CALLS = 6;

type Check = Pick<Calibration, "name" | "about" | "truth" | "measured" | "unit"> & { isHeld: boolean | null };

/** `n`: what it rests on; too little shows nothing. */
const check = (
  [name, unit, about]: readonly [name: string, unit: string, about?: Calibration["about"]],
  { truth, measured, n }: { truth: number; measured: number; n: number },
  isHeld: boolean,
): Check => ({ name, ...(about && { about }), truth, measured, unit, isHeld: n < ENOUGH ? null : isHeld });

const ms = (us: number): number => us / 1000;
const at = (values: readonly number[], p: number): number => {
  const sorted = values.toSorted((a, b) => a - b);
  return quantile(sorted, p) ?? 0;
};

/** Quantiles of what calls took beside those of what they took in truth. */
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

/** What each call that fell into the stall waited, from the moment that the schedule meant, by the stub's own stamps. */
const stall = (calls: readonly Witnessed[], stoodStillUs: number): Check[] => {
  const plain = calls.filter(({ stamp }) => stamp.kind !== "stream");
  const truthMs = ({ dueUs, stamp }: Witnessed): number => ms(stamp.answered_us - dueUs);
  const allowedMs = (truth: number): number => STALL_SHARE * truth + STALL_SLACK_MS;
  const checks = quantiles("known stall", plain, truthMs, [0.9, 0.99], allowedMs);
  return stoodStillUs >= STALL_LEAST_US ? checks : checks.map((one) => ({ ...one, isHeld: null }));
};

/** Variance over mean of the counts in windows of equal length: 1 for random arrivals, 0 for a clock's. */
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

/** The rate that was held, as the stub saw calls come: a call that came late or not at all takes from it. */
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

/** By how much the driver says that a call left after it had come, or ended before it was answered. */
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

/** Every check of one driver. The name of the driver stands before that of the check. */
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

/** The checks of a driver that did not hold; none where all did, or none was made. */
export const failedChecks = (checks: readonly Calibration[], driver: string): Calibration[] =>
  checks.filter((check) => check.verdict !== "pass" && check.driver === driver);
