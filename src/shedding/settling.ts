/**
 * How fast a deployment settles after a step of its load, or of its capacity: a fold of calls into short windows, each
 * compared with the level before the step or with the one that the step leads to. Lines come in time order; memory is
 * bounded by the length of the stage.
 *
 * Windows are judged by Bernstein's inequality (Boucheron, Lugosi & Massart, "Concentration Inequalities", 2013,
 * section 2.8), whose bound also holds for shares near 0 and 1, so that chance alone makes one of a hundred stages look
 * slower than it is.
 */
import { isWholeAnswer, streamResult } from "../contract/streams.ts";
import { type CallLine, classOf, type Line } from "../history/line.ts";
import type { Objective } from "../history/objectives.ts";
import { shareBelow, studentT } from "../history/statistics/distributions.ts";
import { Histogram } from "../history/statistics/histogram.ts";
import { type Interval, mean, wilsonInterval } from "../history/statistics/statistics.ts";
import type { Profile } from "../workload/load-profiles.ts";
import { CALM_ADDED_MS, CALM_TIMES, statedLimitMs } from "./curve-fold.ts";

/** `calm` before the step, `strained` after it, `after` it is taken back; then, after a `pause` without load, once more. */
export type Phase = "calm" | "strained" | "after" | "pause" | "again";
/** Moments of the run's clock. */
export type Span = { readonly phase: Phase; readonly fromUs: number; readonly toUs: number };

const PHASES: readonly Phase[] = ["calm", "strained", "after", "pause", "again"];

/** The phases of a load whose second piece is the overload. */
export const spansOf = ({ pieces }: Pick<Profile, "pieces">, startUs: number): Span[] => {
  let fromUs = startUs;
  return pieces.slice(0, PHASES.length).map(({ durationS }, at) => {
    const span = { phase: PHASES[at] as Phase, fromUs, toUs: fromUs + durationS * 1e6 };
    fromUs = span.toUs;
    return span;
  });
};

/** Calls by the moment at which they were due. */
type Counts = {
  /** How many short windows these are of. */
  spans: number;
  /** First attempts, and with retries. */
  first: number;
  attempts: number;
  refused: number;
  /** Attempts that were answered whole; inside the objective, the first ones among them; late; slower than nearly all calm ones. */
  whole: number;
  good: number;
  firstGood: number;
  late: number;
  slow: number;
  /** Left later than `LAG_MS`. */
  lagged: number;
};

/**
 * What windows are compared with: good attempts, or first ones alone, for each first attempt. `dispersion`: the variance
 * between windows over that of chance, 1 at the least.
 */
type Level = {
  readonly of: "good" | "firstGood";
  readonly counts: Counts;
  readonly share: number;
  readonly dispersion: number;
};

/** Milliseconds: the first moment from which every window keeps its level lies in (low, high]. */
export type SettledAfter = {
  readonly low: number;
  /** `null`: not until the end of the phase. */
  readonly high: number | null;
  /** Most windows before `high` missed the level. Otherwise the deployment had settled before and was disturbed once more. */
  readonly isSteadily: boolean;
  readonly windowMs: number;
  /** The share that one window may be off by chance (95 %). */
  readonly resolution: number;
  readonly calls: number;
};

export type State = "back" | "lost" | "unclear";

export type Settling = {
  readonly stage: string;
  readonly objectiveMs: number;
  /** Good attempts for each first attempt. */
  readonly calmShare: number;
  readonly calmCalls: number;
  /** Both halves of the calm phase are alike. */
  readonly isCalmSteady: boolean;
  /** Windows of the calm phase vary as those of slots do. */
  readonly isCalmEven: boolean;
  /** Share of first attempts that were not served well under strain. */
  readonly strainedLoss: number;
  readonly reaction: SettledAfter | null;
  readonly recovery: SettledAfter | null;
  /** How long the calm load was watched after it. */
  readonly afterMs: number;
  /** The end of `after` compared with the calm phase, and what came after the pause; `null`: not played. */
  readonly end: State;
  readonly endShare: number;
  readonly endSlowShare: number;
  /** Calls were lost in every part of `after`. */
  readonly isLostThroughout: boolean;
  readonly again: State | null;
  /** Attempts for each first attempt while strained, at most `bound` where each is refused by the same chance; and at the end. */
  readonly amplification: (Interval & { readonly value: number }) | null;
  readonly amplificationBound: number;
  readonly amplificationCalm: number;
  readonly amplificationEnd: number;
  /** Share of calls that the generator sent late: in calm and after, and while strained. */
  readonly laggedCalm: number;
  readonly laggedStrained: number;
};

const FINE_US = 100_000;
const WINDOWS_MOST = 6_000;
/** First attempts, and good ones, that a window needs on average. */
const CALLS_A_WINDOW = 25;
const GOOD_A_WINDOW = 20;
/** Windows are looked at alone, and so many in a row: a small loss shows in a long one alone. */
const LENGTHS = [1, 4, 16] as const;
/** The chance that any window of a steady phase looks bad. */
const FALSE_ALARM = 0.01;
const CALLS_MIN = 30;
const WARM_UP_US = 1e6;
const WARM_UP_SHARE = 0.2;
/** A call is slow from half as much again as the calm p90 on. */
const SLOW_QUANTILE = 0.9;
const SLOW_TIMES = 1.5;
/** Latency is as it was where no more calls than this are slow beside those that were. */
const SLOW_MORE = 0.1;
const LAG_US = 50_000;
const LATE_SHARE = 0.01;
const STEADILY = 0.5;
/** Of its new level and of the calm one that a window has to keep. */
const REACTED = 0.95;
const RECOVERED = 0.99;
/** A loss below this is too small for a failure; a state whose share is known less well than this is not known. */
const LOST = 0.95;
const SHARP = 0.15;
/** The part of `after` that shows the state it leads to. */
const END_SHARE = 0.4;
const PARTS = 5;
/** Slots that free up late make windows vary by some times as much as chance; more is a load that comes and goes. */
const DISPERSION_MOST = 8;
/** One-sided 99.95 %. */
const SURE = 3.29;

const nothing = (): Counts => ({
  ...{ spans: 0, first: 0, attempts: 0, refused: 0, whole: 0, good: 0, firstGood: 0, late: 0, slow: 0, lagged: 0 },
});

const sum = (windows: readonly Counts[]): Counts => {
  const all = nothing();
  for (const window of windows) for (const name of Object.keys(all) as (keyof Counts)[]) all[name] += window[name];
  return all;
};

const window = (): Counts => ({ ...nothing(), spans: 1 });

const ratio = (part: number, of: number): number => (of === 0 ? 0 : part / of);

/** The share nearest to a half that so many calls may have come from: what varies most. */
const inside = (share: number, n: number): number => {
  const { low, high } = wilsonInterval(Math.min(1, share) * n, n) ?? { low: 0, high: 1 };
  return Math.min(high, Math.max(low, 0.5));
};

const levelOf = (windows: readonly Counts[], of: Level["of"] = "good"): Level => {
  const counts = sum(windows);
  const share = ratio(counts[of], counts.first);
  const p = Math.min(1 - 1 / (counts.first + 2), Math.max(1 / (counts.first + 2), share));
  const off = windows
    .filter(({ first }) => first > 0)
    .map(({ first, [of]: good }) => (good - p * first) ** 2 / (first * p * (1 - p)));
  return { of, counts, share, dispersion: Math.max(1, off.length < PARTS ? 1 : (mean(off) as number)) };
};

/** By how much a sum of this variance may be off, but for one in e^`log` (Bernstein). */
const mayBeOff = (variance: number, log: number): number => log / 3 + Math.sqrt((log / 3) ** 2 + 2 * log * variance);

const isBelow = (window: Counts, { of, share, counts, dispersion }: Level, kept: number, log: number): boolean => {
  const { first, [of]: good } = window;
  const p = inside(share, counts.first);
  const variance = dispersion * first * p * (1 - p) * (1 + first / Math.max(1, counts.first));
  return kept * share * first - good > mayBeOff(variance, log);
};

const isSlower = ({ whole, slow }: Counts, { counts }: Level, log: number): boolean => {
  const q = inside(ratio(counts.slow, counts.whole), counts.whole);
  const variance = whole * q * (1 - q) * (1 + whole / Math.max(1, counts.whole));
  return slow - (q + SLOW_MORE) * whole > mayBeOff(variance, log);
};

const isTooLate = ({ whole, late }: Counts, log: number): boolean =>
  late > 0 && 1 - shareBelow(whole, LATE_SHARE, late - 1) < Math.exp(-log);

/** Which of the windows begin a bad one of one or several. */
const badOf = (windows: readonly Counts[], isBad: (window: Counts, log: number) => boolean): boolean[] => {
  const log = Math.log((LENGTHS.length * Math.max(1, windows.length)) / FALSE_ALARM);
  return windows.map((_, at) => {
    const reach = LENGTHS.filter((length) => at + length <= windows.length);
    return reach.some((length) => isBad(sum(windows.slice(at, at + length)), log));
  });
};

/** As much of a phase as is there, in windows of `fine` ones; what is left over at the end is no window. */
const grouped = (windows: readonly Counts[], fine: number): Counts[] =>
  Array.from({ length: Math.floor(windows.length / fine) }, (_, at) => sum(windows.slice(at * fine, (at + 1) * fine)));

const settledAfter = (windows: readonly Counts[], bad: readonly boolean[], windowMs: number): SettledAfter => {
  const { first, good } = sum(windows);
  const last = bad.lastIndexOf(true);
  const until = bad.slice(0, last + 1);
  const share = inside(ratio(good, first), first);
  return {
    low: Math.max(0, last) * windowMs,
    high: last === windows.length - 1 ? null : (last + (last < 0 ? 2 : 1)) * windowMs,
    isSteadily: until.filter(Boolean).length >= STEADILY * until.length,
    windowMs,
    resolution: 1.96 * Math.sqrt((share * (1 - share) * windows.length) / Math.max(1, first)),
    calls: first,
  };
};

/**
 * Calls that are served by a retry are served, a little later than they were due; how much that varies is read from first
 * attempts, which are not shifted in time.
 */
const stateOf = (now: Counts, calm: Level, calmFirst: Level): State => {
  if (now.first === 0) return "unclear";
  const { first, good, whole, slow } = calm.counts;
  const p = inside(calmFirst.share, first);
  const error = Math.sqrt(calmFirst.dispersion * p * (1 - p) * (1 / now.first + 1 / first));
  const slowError = Math.sqrt(inside(ratio(slow, whole), whole) * (1 / Math.max(1, now.whole) + 1 / whole));
  const slower = ratio(now.slow, now.whole) - ratio(slow, whole) - SLOW_MORE;
  const [share, was] = [ratio(now.good, now.first), ratio(good, first)];
  if (share + SURE * error < LOST * was || slower - SURE * slowError > 0) return "lost";
  const isNoLower = share >= was || (1.96 * error <= SHARP && share + SURE * error >= RECOVERED * was);
  return isNoLower && slower <= 0 ? "back" : "unclear";
};

type SettlingOptions = {
  readonly stage: string;
  /** Of a step of the load: the phases. Of a step of the capacity: absent, and the lines of the fault say when. */
  readonly spans?: readonly Span[];
  /** Objectives of the target file about these calls. */
  readonly stated?: readonly Objective[];
};

type Limits = { readonly stayUs: number; readonly firstEventUs: number; readonly slowUs: number };
const NEVER = Number.POSITIVE_INFINITY;

type Watched = Span & { readonly windows: Counts[] };

/** A fold over the lines of one stage in time order. */
export class SettlingFold {
  readonly #stage: string;
  /** What is asked of a calm call. */
  readonly #stated: Limits;
  readonly #phases: { phase: Phase; fromUs: number; toUs: number; windows: Counts[] }[];
  readonly #byFault: boolean;
  readonly #stay = new Histogram();
  #limits: Limits | null = null;
  #retriesMost = 0;
  #lacking: string | null = null;

  constructor({ stage, spans, stated = [] }: SettlingOptions) {
    this.#stage = stage;
    const statedUs = (of: "answer" | "first event"): number => 1000 * (statedLimitMs(stated, of) ?? NEVER);
    this.#stated = { stayUs: statedUs("answer"), firstEventUs: statedUs("first event"), slowUs: NEVER };
    this.#byFault = spans === undefined;
    this.#phases = (spans ?? []).map((span) => ({ ...span, windows: [] }));
  }

  /** Why there is nothing to judge, once `end` gave `null`. */
  get lacking(): string | null {
    return this.#lacking;
  }

  see(line: Line): void {
    if (line.stage !== this.#stage) return;
    if (line.type === "fold") this.#lacking = "each call by itself; some were folded into seconds";
    if (line.type === "fault") this.#step(line.phase, line.at_us);
    if (line.type === "call" && line.unscheduled === undefined) this.#count(line);
  }

  #step(phase: string, atUs: number): void {
    if (!this.#byFault) {
      this.#lacking = "a stage without a fault of ours";
      return;
    }
    const begins = { injecting: "strained", healing: "after" }[phase] as Phase | undefined;
    const last = this.#phases.at(-1);
    if (begins === undefined || last === undefined || last.phase === begins) return;
    last.toUs = atUs;
    this.#phases.push({ phase: begins, fromUs: atUs, toUs: Number.POSITIVE_INFINITY, windows: [] });
  }

  #count(call: CallLine): void {
    const { intended_us: dueUs, started_us: startedUs, done_us: doneUs, attempt, outcome } = call;
    if (this.#byFault && this.#phases.length === 0) {
      this.#phases.push({ phase: "calm", fromUs: dueUs, toUs: Number.POSITIVE_INFINITY, windows: [] });
    }
    const phase = this.#phases.findLast(({ fromUs, toUs }) => dueUs >= fromUs && dueUs < toUs);
    const at = phase === undefined ? 0 : Math.floor((dueUs - phase.fromUs) / FINE_US);
    if (phase === undefined || at >= WINDOWS_MOST) return;
    while (phase.windows.length <= at) phase.windows.push(window());
    const counts = phase.windows[at] as Counts;
    this.#retriesMost = Math.max(this.#retriesMost, attempt);
    counts.attempts += 1;
    if (attempt === 0) counts.first += 1;
    if (startedUs - dueUs > LAG_US) counts.lagged += 1;
    if (classOf(outcome) === "refused") counts.refused += 1;
    if (classOf(outcome) !== "answered" || !isWholeAnswer(call) || streamResult(call) !== "whole") return;
    counts.whole += 1;
    const [stayUs, firstUs] = [doneUs - dueUs, (call.first_event_us ?? doneUs) - dueUs];
    const isCalm = phase.phase === "calm";
    if (isCalm) this.#stay.record(stayUs);
    // In time order, every calm call has come before the first of another phase.
    const limits = isCalm ? this.#stated : this.#calmLimits();
    if (stayUs <= limits.stayUs && firstUs <= limits.firstEventUs) {
      counts.good += 1;
      if (attempt === 0) counts.firstGood += 1;
    } else counts.late += 1;
    if (stayUs > limits.slowUs) counts.slow += 1;
  }

  #calmLimits(): Limits {
    const calm = (histogram: Histogram): number => histogram.quantile(0.99) ?? Number.POSITIVE_INFINITY;
    const own = (histogram: Histogram): number => CALM_TIMES * calm(histogram) + 1000 * CALM_ADDED_MS;
    const { stayUs, firstEventUs } = this.#stated;
    this.#limits ??= {
      stayUs: stayUs === NEVER ? own(this.#stay) : stayUs,
      firstEventUs,
      slowUs: SLOW_TIMES * (this.#stay.quantile(SLOW_QUANTILE) ?? Number.POSITIVE_INFINITY),
    };
    return this.#limits;
  }

  /** The windows of a phase, without a beginning that warms up and without what no call was due in any more. */
  #windowsOf(wanted: Phase): Counts[] {
    const found = this.#phases.find(({ phase }) => phase === wanted) as Watched | undefined;
    if (found === undefined) return [];
    const all = Math.floor((found.toUs - found.fromUs) / FINE_US);
    const windows = Array.from(
      { length: Number.isFinite(all) ? Math.min(all, WINDOWS_MOST) : found.windows.length },
      (_, at) => found.windows[at] ?? window(),
    );
    const skipped = Math.min(WARM_UP_US / FINE_US, Math.floor(WARM_UP_SHARE * windows.length));
    return wanted === "calm" || wanted === "again" ? windows.slice(skipped) : windows;
  }

  end(): Settling | null {
    const lacks = (what: string): null => {
      this.#lacking = what;
      return null;
    };
    if (this.#lacking !== null) return null;
    const [calmFine, strainedFine, afterFine] = (["calm", "strained", "after"] as const).map((phase) =>
      this.#windowsOf(phase),
    ) as [Counts[], Counts[], Counts[]];
    const calmAll = sum(calmFine);
    if (calmAll.good < CALLS_MIN) return lacks(`${CALLS_MIN} calls served before the step; ${calmAll.good} were`);
    const fewest = Math.min(sum(strainedFine).first, sum(afterFine).first);
    if (fewest < CALLS_MIN) return lacks(`${CALLS_MIN} calls after the step, and after its end; ${fewest} came`);
    // A window is no shorter than a call, or it would hang on the one before.
    const stayUs = this.#stay.quantile(0.5) ?? 0;
    const fineOf = (fine: readonly Counts[]): number => {
      const { first, good } = sum(fine);
      const wanted = Math.max(CALLS_A_WINDOW / Math.max(1, first), GOOD_A_WINDOW / Math.max(1, good));
      return Math.max(1, Math.min(fine.length, Math.ceil(Math.max(stayUs / FINE_US, wanted * fine.length))));
    };
    const fineCalm = fineOf(calmFine);
    const [calmWindows, afterWindows] = [grouped(calmFine, fineCalm), grouped(afterFine, fineCalm)];
    const calm = this.#calmLevel(calmWindows, "good");
    const calmFirst = this.#calmLevel(calmWindows, "firstGood");
    const half = Math.floor(calmFine.length / 2);
    const [one, other] = [sum(calmFine.slice(0, half)), sum(calmFine.slice(half))];
    const difference = ratio(one.firstGood, one.first) - ratio(other.firstGood, other.first);
    const p = inside(calmFirst.share, calmAll.first);
    const halfError = Math.sqrt((calmFirst.dispersion * p * (1 - p) * 4) / calmAll.first);

    const fineStrained = fineOf(strainedFine.slice(strainedFine.length / 2));
    const strained = grouped(strainedFine, fineStrained);
    const led = levelOf(strained.slice(Math.floor(strained.length / 2)));
    const msOf = (fine: number): number => (fine * FINE_US) / 1000;
    const calmGood = ratio(calmAll.good, calmAll.spans);
    // What grows under load beyond what was served before is no late answer.
    const isUnsettled = (now: Counts, log: number): boolean =>
      isTooLate(now, log) || (now.good < REACTED * calmGood * now.spans && isBelow(now, led, REACTED, log));
    const isWorse = (window: Counts, log: number): boolean =>
      isBelow(window, calm, RECOVERED, log) || isSlower(window, calm, log);

    const end = sum(afterFine.slice(Math.floor((1 - END_SHARE) * afterFine.length)));
    const partOf = Math.floor(afterFine.length / PARTS);
    const parts = Array.from({ length: PARTS }, (_, at) => sum(afterFine.slice(at * partOf, (at + 1) * partOf)));
    const endState = stateOf(end, calm, calmFirst);
    const worse = badOf(afterWindows, isWorse);
    // What is lost to the end did not settle, also where the last windows of all look well.
    if (endState === "lost") worse[worse.length - 1] = true;
    const all = sum(strainedFine);
    const again = sum(this.#windowsOf("again"));
    const refusedShare = ratio(all.refused, all.attempts);
    const perWindow = strained.filter(({ first }) => first > 0).map(({ attempts, first }) => attempts / first);
    return {
      stage: this.#stage,
      objectiveMs: this.#calmLimits().stayUs / 1000,
      calmShare: calm.share,
      calmCalls: calmAll.first,
      isCalmSteady: Math.abs(difference) <= SURE * halfError,
      isCalmEven: calmFirst.dispersion <= DISPERSION_MOST,
      strainedLoss: 1 - ratio(all.good, all.first),
      reaction: strained.length === 0 ? null : settledAfter(strained, badOf(strained, isUnsettled), msOf(fineStrained)),
      recovery: afterWindows.length === 0 ? null : settledAfter(afterWindows, worse, msOf(fineCalm)),
      afterMs: msOf(afterFine.length),
      end: endState,
      endShare: ratio(end.good, end.first),
      endSlowShare: ratio(end.slow, end.whole),
      isLostThroughout: parts.every((part) => stateOf(part, calm, calmFirst) === "lost"),
      again: again.first === 0 ? null : stateOf(again, calm, calmFirst),
      amplification: this.#retriesMost === 0 ? null : meanOf(perWindow, ratio(all.attempts, all.first)),
      amplificationBound: Array.from({ length: this.#retriesMost + 1 }, (_, i) => refusedShare ** i).reduce(
        (a, b) => a + b,
        0,
      ),
      amplificationCalm: ratio(calmAll.attempts, calmAll.first),
      amplificationEnd: ratio(end.attempts, end.first),
      laggedCalm: ratio(calmAll.lagged + sum(afterFine).lagged, calmAll.attempts + sum(afterFine).attempts),
      laggedStrained: ratio(all.lagged, all.attempts),
    };
  }

  /** Calm calls were counted before it was known what is slow. */
  #calmLevel(windows: readonly Counts[], of: Level["of"]): Level {
    const level = levelOf(windows, of);
    const { slowUs } = this.#calmLimits();
    const above = this.#stay.n === 0 ? 0 : 1 - this.#stay.countUpTo(slowUs) / this.#stay.n;
    return { ...level, counts: { ...level.counts, slow: above * level.counts.whole } };
  }
}

const meanOf = (values: readonly number[], value: number): Settling["amplification"] => {
  if (values.length < 2) return null;
  const middle = mean(values) as number;
  const variance = values.reduce((all, one) => all + (one - middle) ** 2, 0) / (values.length - 1);
  const off = studentT(values.length - 1) * Math.sqrt(variance / values.length);
  return { value, low: value - off, high: value + off };
};
