/**
 * Is what a driver measured what happened? Each check sets a truth that a stub made or stamped beside what the driver's lines
 * say. The limits are those of field-notes/shedding.md 2.3, where they are stated; a check that fails takes claims about time
 * their verdict, and no others.
 */
import { type CalibrationPlay, type Witnessed, type WitnessedPlay, witnessed } from "./calibration-play.ts";
import type { Calibration } from "./run-document.ts";
import { kolmogorovDistance, kolmogorovLimit } from "./statistics/kolmogorov.ts";
import { quantile } from "./statistics/statistics.ts";

/** Known delay: field-notes/measured.md 6a has every good tool within 0.7 ms at the median, 2.8 ms at p99. */
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

type Check = Omit<Calibration, "name" | "verdict"> & { name: string; isHeld: boolean | null };

const at = (values: readonly number[], p: number): number =>
  quantile(
    [...values].sort((a, b) => a - b),
    p,
  ) ?? 0;
const ms = (us: number): number => us / 1000;
const latencyMs = ({ line }: Witnessed): number => ms(line.done_us - line.intended_us);

const delay = (calls: readonly Witnessed[]): Check[] => {
  const delayed = calls.filter(({ stamp }) => stamp.kind === "delayed");
  const truths = delayed.map(({ stamp }) => ms(stamp.answered_us - stamp.received_us));
  const measured = delayed.map(latencyMs);
  return (["p50", "p99"] as const).map((name): Check => {
    const p = name === "p50" ? 0.5 : 0.99;
    const [truth, found] = [at(truths, p), at(measured, p)];
    const isHeld = delayed.length < ENOUGH ? null : Math.abs(found - truth) <= DELAY_MS[name];
    return { name: `known delay, ${name}`, truth, measured: found, unit: "ms", isHeld };
  });
};

/** What each call that fell into the stall waited, from the moment that the schedule meant, by the stub's own stamps. */
const stall = (calls: readonly Witnessed[], stoodStillUs: number): Check[] => {
  const plain = calls.filter(({ stamp }) => stamp.kind !== "stream");
  const truths = plain.map(({ dueUs, stamp }) => ms(stamp.answered_us - dueUs));
  const measured = plain.map(latencyMs);
  return [0.9, 0.99].map((p): Check => {
    const [truth, found] = [at(truths, p), at(measured, p)];
    const isSeen = plain.length >= ENOUGH && stoodStillUs >= STALL_LEAST_US;
    const isHeld = isSeen ? Math.abs(found - truth) <= STALL_SHARE * truth + STALL_SLACK_MS : null;
    return { name: `known stall, p${p * 100}`, truth, measured: found, unit: "ms", isHeld };
  });
};

/** Variance over mean of the counts in windows of equal length: 1 for random arrivals, 0 for a clock's. */
const dispersion = (timesUs: readonly number[], windowUs: number, count: number): number => {
  const counts = new Array<number>(count).fill(0);
  for (const time of timesUs) {
    const window = Math.floor(time / windowUs);
    if (window >= 0 && window < count) counts[window]! += 1;
  }
  const mean = counts.reduce((sum, n) => sum + n, 0) / count;
  return counts.reduce((sum, n) => sum + (n - mean) ** 2, 0) / (count - 1) / mean;
};

const arrivals = (play: CalibrationPlay, { startUs, calls }: WitnessedPlay): Check[] => {
  const windowUs = (WINDOW_CALLS / play.ratePerS) * 1e6;
  const windows = Math.floor((play.steadyUs - play.warmUs) / windowUs);
  if (windows < 2 || calls.length < ENOUGH) {
    return [{ name: "arrivals, dispersion", truth: 1, measured: 0, unit: "ratio", isHeld: null }];
  }
  const seen = calls.map(({ stamp }) => stamp.received_us - startUs - play.warmUs).sort((a, b) => a - b);
  const due = play.schedule.map((offset) => offset - play.warmUs);
  const truth = dispersion(due, windowUs, windows);
  const measured = dispersion(seen, windowUs, windows);
  const checks: Check[] = [
    {
      name: "arrivals, dispersion",
      truth,
      measured,
      unit: "ratio",
      isHeld: Math.abs(measured - truth) <= DISPERSION * Math.max(1, truth),
    },
  ];
  if (play.arrivals === "poisson") {
    const sorted = seen
      .slice(1)
      .map((time, i) => time - (seen[i] as number))
      .sort((a, b) => a - b);
    const limit = kolmogorovLimit(sorted.length, 0.001);
    const distance = kolmogorovDistance(sorted, (us) => 1 - Math.exp((-us / 1e6) * play.ratePerS));
    checks.push({
      name: "arrivals, Kolmogorov-Smirnov (at most)",
      truth: limit,
      measured: distance,
      unit: "ratio",
      isHeld: distance <= limit,
    });
  }
  return checks;
};

/** The rate that was held, as the stub saw calls come: a call that came late or not at all takes from it. */
const ceiling = ({ schedule, stalledUs, ceilingPerS }: CalibrationPlay, { startUs, calls }: WitnessedPlay): Check => {
  const due = schedule.filter((offset) => offset >= stalledUs);
  const seen = calls.filter(({ dueUs }) => dueUs - startUs >= stalledUs);
  const lastDue = due.at(-1) ?? stalledUs;
  const lastSeen = seen.reduce((last, { stamp }) => Math.max(last, stamp.received_us - startUs), lastDue);
  const inTime = (lastDue - stalledUs) / Math.max(1, lastSeen - stalledUs);
  const measured = due.length === 0 ? 0 : ceilingPerS * inTime * (seen.length / due.length);
  const isHeld = due.length < ENOUGH ? null : measured >= CEILING_SHARE * ceilingPerS;
  return { name: "null server, rate held", truth: ceilingPerS, measured, unit: "1/s", isHeld };
};

/** By how much the driver says that a call left after it had come, or ended before it was answered. */
const clock = (calls: readonly Witnessed[]): Check => {
  const worst = calls.reduce(
    (most, { line, stamp }) => Math.max(most, line.sent_us - stamp.received_us, stamp.last_us - line.done_us),
    0,
  );
  const stated = Math.max(0, ...calls.map(({ line }) => line.clock_error_us));
  const isHeld = calls.length < ENOUGH ? null : ms(worst) <= Math.max(ms(stated), CLOCK_MS);
  return { name: "clock error", truth: 0, measured: ms(worst), unit: "ms", isHeld };
};

const events = (calls: readonly Witnessed[]): Check[] => {
  const streams = calls.filter(({ stamp, line }) => stamp.kind === "stream" && line.first_event_us !== undefined);
  const check = (name: string, errorsUs: readonly number[]): Check => {
    const measured = ms(at(errorsUs.map(Math.abs), 0.99));
    const isHeld = streams.length < ENOUGH ? null : measured <= EVENT_MS;
    return { name, truth: 0, measured, unit: "ms", isHeld };
  };
  return [
    check(
      "first event, error p99",
      streams.map(({ line, stamp }) => (line.first_event_us as number) - stamp.answered_us),
    ),
    check(
      "last event, error p99",
      streams.map(({ line, stamp }) => line.done_us - stamp.last_us),
    ),
  ];
};

const oneToOne = ({ schedule, lines, stamps }: CalibrationPlay, { calls }: WitnessedPlay): Check => {
  const isHeld = [calls.length, lines.length, stamps.length].every((count) => count === schedule.length);
  return { name: "calls, one to one", truth: schedule.length, measured: calls.length, unit: "1", isHeld };
};

/** Every check of one driver. The name of the driver stands before that of the check. */
export const calibrationChecks = (play: CalibrationPlay): Calibration[] => {
  const seen = witnessed(play);
  const { startUs, calls } = seen;
  const offsetOf = ({ dueUs }: Witnessed): number => dueUs - startUs;
  const steady = calls.filter((call) => offsetOf(call) >= play.warmUs && offsetOf(call) < play.steadyUs);
  const stalled = calls.filter((call) => offsetOf(call) >= play.steadyUs && offsetOf(call) < play.stalledUs);
  const checks: Check[] = [
    ceiling(play, seen),
    ...delay(steady),
    ...stall(stalled, play.stoodStillUs),
    ...arrivals(play, { startUs, calls: steady }),
    clock(calls),
    ...events(steady),
    oneToOne(play, seen),
  ];
  return checks.map(({ name, isHeld, ...figures }) => ({
    name: `${play.driver}: ${name}`,
    ...figures,
    verdict: isHeld === null ? "inconclusive" : isHeld ? "pass" : "fail",
  }));
};

/** The checks of a driver that did not hold; none where all did, or none was made. */
export const failedChecks = (checks: readonly Calibration[], driver: string): Calibration[] =>
  checks.filter(({ name, verdict }) => verdict !== "pass" && name.startsWith(`${driver}: `));
