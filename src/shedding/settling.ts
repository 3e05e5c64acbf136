/**
 * How fast a deployment settles after a step of its load, or of its capacity: a fold of calls into short windows, each
 * compared with the level before the step or with the level that the step leads to. Lines come in time order; memory is
 * bounded by the length of the stage.
 *
 * Windows are judged by Bernstein's inequality (Boucheron, Lugosi & Massart, "Concentration Inequalities", 2013,
 * section 2.8), whose bound also holds for shares near 0 and 1, so that at most one of a hundred stages looks slower
 * than it is by chance.
 */
import { isWholeAnswer, streamResult } from "../contract/streams.ts";
import { type CallLine, classOf, type Line } from "../history/line.ts";
import type { Objective } from "../history/objectives.ts";
import { Histogram } from "../history/statistics/histogram.ts";
import { mean, shareBelow, wilsonInterval } from "../history/statistics/statistics.ts";
import type { Profile } from "../workload/load-profiles.ts";
import { CALM_ADDED_MS, CALM_TIMES, statedLimitMs } from "./curve-fold.ts";
import { batchMean } from "./knee.ts";

/**
 * `calm` lies before the step, `strained` after it, `after` when the step is undone; a `pause` without load follows,
 * then the calm load `again`.
 */
const PHASES = ["calm", "strained", "after", "pause", "again"] as const;
type Phase = (typeof PHASES)[number];
/** When a phase begins and ends, in microseconds of the run. */
type Span = { readonly phase: Phase; readonly fromUs: number; readonly toUs: number };

/** The phases of a load whose second piece is the overload. */
export const spansOf = ({ pieces }: Pick<Profile, "pieces">, startUs: number): Span[] => {
  let fromUs = startUs;
  return pieces.slice(0, PHASES.length).map(({ durationS }, at) => {
    const span = { phase: PHASES[at] as Phase, fromUs, toUs: fromUs + durationS * 1e6 };
    fromUs = span.toUs;
    return span;
  });
};

/** Zero counts of a window. A call counts in the window in which it was due. */
const nothing = () => ({
  /** How many windows of `FINE_US` these counts cover. */
  spans: 0,
  /** First attempts, all attempts, refused ones, and those sent later than `LAG_US`. */
  ...{ first: 0, attempts: 0, refused: 0, lagged: 0 },
  /**
   * Attempts answered whole; those inside the objective, and the first attempts of them; late ones; ones slower than
   * nearly all calm ones.
   */
  ...{ whole: 0, good: 0, firstGood: 0, late: 0, slow: 0 },
});
type Counts = ReturnType<typeof nothing>;

const FINE_US = 100_000;
const WINDOWS_MOST = 6_000;
/** The first attempts, and the good attempts, that a window needs on average. */
const CALLS_A_WINDOW = 25;
const GOOD_A_WINDOW = 20;
/** Windows are judged in runs of these lengths: a small loss shows only in a long run. */
const LENGTHS = [1, 4, 16] as const;
/** The chance that any window of a steady phase looks bad. */
const FALSE_ALARM = 0.01;
const CALLS_MIN = 30;
const WARM_UP_US = 1e6;
const WARM_UP_SHARE = 0.2;
/** A call is slow if it takes more than 1.5 times the p90 of calm calls. */
const SLOW_QUANTILE = 0.9;
const SLOW_TIMES = 1.5;
/**
 * Latency is back if the share of slow calls is at most this much above that of calm calls, and lost if it is more than
 * `SLOW_LOST` above it. The margins are wide because concurrent calls are correlated.
 */
const SLOW_MORE = 0.1;
const SLOW_LOST = 0.5;
/** The calm phase shows a steady state if it lasts this many times the p90 of its calls. */
const CALM_STAYS = 2;
const LAG_US = 50_000;
const LATE_SHARE = 0.01;
const STEADILY = 0.5;
/** The share of the level after the step (`REACTED`) or of the calm level (`RECOVERED`) that a window has to keep. */
const REACTED = 0.95;
const RECOVERED = 0.99;
/** A state counts as lost only if less than this share of the calm service is left. */
const LOST = 0.95;
/** A state is unclear if its share is known less precisely than to ± this. */
const SHARP = 0.15;
/** The share of `after`, at its end, that shows the final state. */
const END_SHARE = 0.4;
const PARTS = 5;
/**
 * Slots that are released late make windows vary by a few times as much as chance does; a larger variance means that
 * another load comes and goes.
 */
const DISPERSION_MOST = 8;
/** The normal quantile for one-sided 99.95 %. */
const SURE = 3.29;

const sum = (windows: readonly Counts[]): Counts => {
  const all = nothing();
  for (const one of windows) for (const name of Object.keys(all) as (keyof Counts)[]) all[name] += one[name];
  return all;
};

const oneWindow = (): Counts => ({ ...nothing(), spans: 1 });

const ratio = (part: number, of: number): number => (of === 0 ? 0 : part / of);

/** The value nearest to one half in the Wilson interval of a share: it has the largest variance. */
const inside = (share: number, n: number): number => {
  const { low, high } = wilsonInterval(Math.min(1, share) * n, n) ?? { low: 0, high: 1 };
  return Math.min(high, Math.max(low, 0.5));
};

/**
 * The level that windows are compared with: good attempts, or good first attempts, for each first attempt. `dispersion`:
 * the variance between windows divided by that of chance, at least 1.
 */
const levelOf = (windows: readonly Counts[], of: "good" | "firstGood" = "good") => {
  const counts = sum(windows);
  const share = ratio(counts[of], counts.first);
  const p = Math.min(1 - 1 / (counts.first + 2), Math.max(1 / (counts.first + 2), share));
  const off = windows
    .filter(({ first }) => first > 0)
    .map(({ first, [of]: good }) => (good - p * first) ** 2 / (first * p * (1 - p)));
  return { of, counts, share, dispersion: Math.max(1, off.length < PARTS ? 1 : (mean(off) as number)) };
};
type Level = ReturnType<typeof levelOf>;

/** Bernstein's bound: a sum of this variance exceeds its mean by more than this with probability at most e^-`log`. */
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

const isTooLate = ({ whole, late }: Counts, most: number, log: number): boolean =>
  late > 0 && 1 - shareBelow(whole, most, late - 1) < Math.exp(-log);

/** Marks each window that begins a bad run of any of the lengths. */
const badOf = (windows: readonly Counts[], isBad: (window: Counts, log: number) => boolean): boolean[] => {
  const log = Math.log((LENGTHS.length * Math.max(1, windows.length)) / FALSE_ALARM);
  return windows.map((_, at) => {
    const reach = LENGTHS.filter((length) => at + length <= windows.length);
    return reach.some((length) => isBad(sum(windows.slice(at, at + length)), log));
  });
};

/** Joins every `fine` windows of a phase to one; drops the remainder at its end. */
const grouped = (windows: readonly Counts[], fine: number): Counts[] =>
  Array.from({ length: Math.floor(windows.length / fine) }, (_, at) => sum(windows.slice(at * fine, (at + 1) * fine)));

/** When every window keeps its level from then on: in (low, high], in milliseconds; `null` without a window. */
const settledAfter = (windows: readonly Counts[], bad: readonly boolean[], fine: number) => {
  if (windows.length === 0) return null;
  const windowMs = (fine * FINE_US) / 1000;
  const { first, good } = sum(windows);
  const last = bad.lastIndexOf(true);
  const until = bad.slice(0, last + 1);
  const share = inside(ratio(good, first), first);
  return {
    low: Math.max(0, last) * windowMs,
    /** `null` if the level is not kept at the end of the phase. */
    high: last === windows.length - 1 ? null : (last + (last < 0 ? 2 : 1)) * windowMs,
    /** Most windows before `high` missed the level. Otherwise the deployment had settled earlier and was disturbed again. */
    isSteadily: until.filter(Boolean).length >= STEADILY * until.length,
    windowMs,
    /** By how much the share of one window may be off by chance (95 %). */
    resolution: 1.96 * Math.sqrt((share * (1 - share) * windows.length) / Math.max(1, first)),
    calls: first,
  };
};
export type SettledAfter = NonNullable<ReturnType<typeof settledAfter>>;

/**
 * Compares a state with the calm one. A call that is served by a retry counts as served, a little later than it was due.
 * So its variance is taken from first attempts, which are not shifted in time.
 */
const stateOf = (now: Counts, calm: Level, calmFirst: Level): "back" | "lost" | "unclear" => {
  if (now.first === 0) return "unclear";
  const { first, good, whole, slow } = calm.counts;
  const p = inside(calmFirst.share, first);
  const error = Math.sqrt(calmFirst.dispersion * p * (1 - p) * (1 / now.first + 1 / first));
  const slowError = Math.sqrt(inside(ratio(slow, whole), whole) * (1 / Math.max(1, now.whole) + 1 / whole));
  const slower = ratio(now.slow, now.whole) - ratio(slow, whole);
  const [share, was] = [ratio(now.good, now.first), ratio(good, first)];
  if (share + SURE * error < LOST * was || slower - SURE * slowError > SLOW_LOST) return "lost";
  const isNoLower = share >= was || (1.96 * error <= SHARP && share + SURE * error >= RECOVERED * was);
  return isNoLower && slower <= SLOW_MORE ? "back" : "unclear";
};

const NEVER = Number.POSITIVE_INFINITY;

/**
 * A fold over the lines of one stage in time order. `spans`: the phases of a step of the load; absent for a step of the
 * capacity, whose phases begin with lines of the fault. `stated`: objectives of the target file about these calls.
 * `end` returns the settling, or a text that says what is lacking.
 */
export const openSettling = (stage: string, spans?: readonly Span[], stated: readonly Objective[] = []) => {
  const statedUs = (of: "answer" | "first event"): number => 1000 * (statedLimitMs(stated, of) ?? NEVER);
  const ofCalm = { stayUs: statedUs("answer"), firstEventUs: statedUs("first event"), slowUs: NEVER };
  const phases = (spans ?? []).map((span) => ({ ...span, windows: [] as Counts[] }));
  const stays = new Histogram();
  let ofOthers: typeof ofCalm | null = null;
  let retriesMost = 0;
  let lacking: string | null = null;

  const begin = (phase: Phase, fromUs: number): void => void phases.push({ phase, fromUs, toUs: NEVER, windows: [] });

  const step = (phase: string, atUs: number): void => {
    if (spans !== undefined) lacking = "a stage without a fault of ours";
    const begins = ({ injecting: "strained", healing: "after" } as const)[phase];
    const last = phases.at(-1);
    if (spans !== undefined || begins === undefined || last === undefined || last.phase === begins) return;
    last.toUs = atUs;
    begin(begins, atUs);
  };

  /** The objective for all but calm calls. Lines come in time order, so all calm calls have been seen by then. */
  const limits = (): typeof ofCalm => {
    const { stayUs, firstEventUs } = ofCalm;
    ofOthers ??= {
      stayUs: stayUs === NEVER ? CALM_TIMES * (stays.quantile(0.99) ?? NEVER) + 1000 * CALM_ADDED_MS : stayUs,
      firstEventUs,
      slowUs: SLOW_TIMES * (stays.quantile(SLOW_QUANTILE) ?? NEVER),
    };
    return ofOthers;
  };

  const count = (call: CallLine): void => {
    const { intended_us: dueUs, started_us: startedUs, done_us: doneUs, attempt, outcome } = call;
    if (spans === undefined && phases.length === 0) begin("calm", dueUs);
    const phase = phases.findLast(({ fromUs, toUs }) => dueUs >= fromUs && dueUs < toUs);
    const at = phase === undefined ? 0 : Math.floor((dueUs - phase.fromUs) / FINE_US);
    if (phase === undefined || at >= WINDOWS_MOST) return;
    while (phase.windows.length <= at) phase.windows.push(oneWindow());
    const counts = phase.windows[at] as Counts;
    retriesMost = Math.max(retriesMost, attempt);
    counts.attempts += 1;
    if (attempt === 0) counts.first += 1;
    if (startedUs - dueUs > LAG_US) counts.lagged += 1;
    if (classOf(outcome) === "refused") counts.refused += 1;
    if (classOf(outcome) !== "answered" || !isWholeAnswer(call) || streamResult(call) !== "whole") return;
    counts.whole += 1;
    const [stayUs, firstUs] = [doneUs - dueUs, (call.first_event_us ?? doneUs) - dueUs];
    const isCalm = phase.phase === "calm";
    if (isCalm) stays.record(stayUs);
    const asked = isCalm ? ofCalm : limits();
    if (stayUs <= asked.stayUs && firstUs <= asked.firstEventUs) {
      counts.good += 1;
      if (attempt === 0) counts.firstGood += 1;
    } else counts.late += 1;
    if (stayUs > asked.slowUs) counts.slow += 1;
  };

  const see = (line: Line): void => {
    if (line.stage !== stage) return;
    if (line.type === "fold") lacking = "each call by itself; some were folded into seconds";
    if (line.type === "fault") step(line.phase, line.at_us);
    if (line.type === "call" && line.unscheduled === undefined) count(line);
  };

  /** The windows of a phase, `calm` and `again` without warm-up; a phase without an end stops at its last call. */
  const windowsOf = (wanted: Phase): Counts[] => {
    const found = phases.find(({ phase }) => phase === wanted);
    if (found === undefined) return [];
    const all = Math.min(Math.floor((found.toUs - found.fromUs) / FINE_US), WINDOWS_MOST);
    const length = found.toUs === NEVER ? found.windows.length : all;
    const windows = Array.from({ length }, (_, at) => found.windows[at] ?? oneWindow());
    const skipped = Math.min(WARM_UP_US / FINE_US, Math.floor(WARM_UP_SHARE * windows.length));
    return wanted === "calm" || wanted === "again" ? windows.slice(skipped) : windows;
  };

  /** How many fine windows make one: enough calls, and the median stay, so that windows are nearly independent. */
  const fineOf = (windows: readonly Counts[]): number => {
    const { first, good } = sum(windows);
    const wanted = Math.max(CALLS_A_WINDOW / Math.max(1, first), GOOD_A_WINDOW / Math.max(1, good));
    const stayUs = stays.quantile(0.5) ?? 0;
    return Math.max(1, Math.min(windows.length, Math.ceil(Math.max(stayUs / FINE_US, wanted * windows.length))));
  };

  const end = () => {
    if (lacking !== null) return lacking;
    const [calmFine, strainedFine, afterFine] = [windowsOf("calm"), windowsOf("strained"), windowsOf("after")];
    const [calmAll, all, afterAll] = [sum(calmFine), sum(strainedFine), sum(afterFine)];
    if (calmAll.good < CALLS_MIN) return `${CALLS_MIN} calls served before the step; ${calmAll.good} were`;
    const fewest = Math.min(all.first, afterAll.first);
    if (fewest < CALLS_MIN) return `${CALLS_MIN} calls after the step, and after its end; ${fewest} came`;
    const { slowUs, stayUs } = limits();
    // Calm calls were counted before it was known which of them are slow.
    const calmLevel = (of: Level["of"]): Level => {
      const level = levelOf(grouped(calmFine, fineCalm), of);
      const above = stays.n === 0 ? 0 : 1 - stays.countUpTo(slowUs) / stays.n;
      return { ...level, counts: { ...level.counts, slow: above * level.counts.whole } };
    };
    const fineCalm = fineOf(calmFine);
    const [calm, calmFirst] = [calmLevel("good"), calmLevel("firstGood")];
    const state = (now: Counts): ReturnType<typeof stateOf> => stateOf(now, calm, calmFirst);
    const half = Math.floor(calmFine.length / 2);
    const [one, other] = [sum(calmFine.slice(0, half)), sum(calmFine.slice(half))];
    const difference = ratio(one.firstGood, one.first) - ratio(other.firstGood, other.first);
    const p = inside(calmFirst.share, calmAll.first);
    const halfError = Math.sqrt((calmFirst.dispersion * p * (1 - p) * 4) / calmAll.first);

    const fineStrained = fineOf(strainedFine.slice(strainedFine.length / 2));
    const strained = grouped(strainedFine, fineStrained);
    const led = levelOf(strained.slice(Math.floor(strained.length / 2)));
    const calmGood = ratio(calmAll.good, calmAll.spans);
    const isStated = Math.min(ofCalm.stayUs, ofCalm.firstEventUs) < NEVER;
    // If no objective is stated, answers may be as late as after settling.
    const lateMost = isStated ? LATE_SHARE : Math.max(LATE_SHARE, ratio(led.counts.late, led.counts.whole));
    // A window with nearly the goodput of the calm phase is not too low, even if a later level is higher.
    const unsettled = badOf(
      strained,
      (now, log) =>
        isTooLate(now, lateMost, log) || (now.good < REACTED * calmGood * now.spans && isBelow(now, led, REACTED, log)),
    );

    const afterWindows = grouped(afterFine, fineCalm);
    const worse = badOf(afterWindows, (now, log) => isBelow(now, calm, RECOVERED, log) || isSlower(now, calm, log));
    const last = sum(afterFine.slice(Math.floor((1 - END_SHARE) * afterFine.length)));
    const partOf = Math.floor(afterFine.length / PARTS);
    const states = Array.from({ length: PARTS }, (_, at) =>
      state(sum(afterFine.slice(at * partOf, (at + 1) * partOf))),
    );
    const endState = state(last);
    // A state that is lost at the end has not settled, even if its last windows look well.
    if (endState === "lost") worse[worse.length - 1] = true;
    const again = sum(windowsOf("again"));
    const perWindow = strained.filter(({ first }) => first > 0).map(({ attempts, first }) => attempts / first);
    const scatter = batchMean(perWindow);
    const off = scatter.high - scatter.value;
    const amplification = ratio(all.attempts, all.first);
    return {
      stage,
      objectiveMs: stayUs / 1000,
      /** Good attempts for each first attempt. */
      calmShare: calm.share,
      /** Both halves of the calm phase are alike. */
      isCalmSteady: Math.abs(difference) <= SURE * halfError,
      /** The calm phase lasted long enough for its calls to fill the deployment. */
      isCalmFilled: calmFine.length * FINE_US >= CALM_STAYS * (stays.quantile(SLOW_QUANTILE) ?? 0),
      /** Windows of the calm phase vary no more than late releases of slots explain. */
      isCalmEven: calmFirst.dispersion <= DISPERSION_MOST,
      /** Share of first attempts that were not served well under strain. */
      strainedLoss: 1 - ratio(all.good, all.first),
      reaction: settledAfter(strained, unsettled, fineStrained),
      recovery: settledAfter(afterWindows, worse, fineCalm),
      afterMs: (afterFine.length * FINE_US) / 1000,
      /** State at the end of `after` against the calm phase; `again`: after the pause, `null` if not played. */
      // A loss that has ended in the last part is a slow recovery.
      end: endState === "lost" && states.at(-1) !== "lost" ? "unclear" : endState,
      endShare: ratio(last.good, last.first),
      endSlowShare: ratio(last.slow, last.whole),
      isLostThroughout: states.every((one) => one === "lost"),
      again: again.first === 0 ? null : state(again),
      /** Attempts for each first attempt while strained; `amplificationBound` assumes equal chances of refusal. */
      amplification:
        retriesMost === 0 || perWindow.length < 2
          ? null
          : { value: amplification, low: amplification - off, high: amplification + off },
      amplificationBound: Array.from(
        { length: retriesMost + 1 },
        (_, i) => ratio(all.refused, all.attempts) ** i,
      ).reduce((a, b) => a + b),
      amplificationCalm: ratio(calmAll.attempts, calmAll.first),
      amplificationEnd: ratio(last.attempts, last.first),
      /** Share of calls that the generator sent late: in calm and after, and while strained. */
      laggedCalm: ratio(calmAll.lagged + afterAll.lagged, calmAll.attempts + afterAll.attempts),
      laggedStrained: ratio(all.lagged, all.attempts),
    };
  };
  return { see, end };
};

export type Settling = Exclude<ReturnType<ReturnType<typeof openSettling>["end"]>, string>;
