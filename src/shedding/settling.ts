/**
 * How fast a deployment settles after a step of its load, or of its capacity: a fold of calls into short windows, each
 * compared with the level before the step or with the goodput that the step leads to. Lines come in time order; memory is
 * bounded by the length of the stage.
 *
 * Windows begin every 100 ms and are judged so that at most one of a hundred stages looks slower than it is by chance.
 */
import { isWholeAnswer, streamResult } from "../contract/streams.ts";
import { type CallLine, classOf, type Line } from "../history/line.ts";
import type { Objective } from "../history/objectives.ts";
import { Histogram } from "../history/statistics/histogram.ts";
import { type Interval, mean, shareBelow, wilsonInterval } from "../history/statistics/statistics.ts";
import type { Profile } from "../workload/load-profiles.ts";
import { CALM_ADDED_MS, CALM_TIMES, statedLimitMs } from "./curve-fold.ts";
import { batchMean } from "./knee.ts";

/**
 * `calm` lies before the step, `strained` after it, `after` when the step is undone; a `pause` without load follows,
 * then the calm load `again`.
 */
const PHASES = ["calm", "strained", "after", "pause", "again"] as const;
type Phase = (typeof PHASES)[number];
/** When a phase begins and ends, in microseconds of the run; `surelyUs`: from when on a fault is certainly in effect. */
type Span = { readonly phase: Phase; readonly fromUs: number; readonly toUs: number; readonly surelyUs?: number };

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
/** The good attempts that a window needs on average. */
const GOOD_A_WINDOW = 20;
/** The chance that one of the windows side by side in a steady phase looks bad; those in between, every 100 ms, add to it. */
const FALSE_ALARM = 0.002;
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
/** Few windows may look too even by chance, so their scatter counts as at least this. */
const SCATTER_LEAST = 0.5;
/** The normal quantile for one-sided 99.95 %. */
const SURE = 3.29;

const NAMES = Object.keys(nothing()) as (keyof Counts)[];

const sum = (windows: readonly Counts[]): Counts => {
  const all = nothing();
  for (const one of windows) for (const name of NAMES) all[name] += one[name];
  return all;
};

/** Each run of `length` windows, one beginning with every window. */
const runsOf = (windows: readonly Counts[], length: number): Counts[] => {
  const run = sum(windows.slice(0, length));
  return windows.slice(length - 1).map((_, at) => {
    if (at > 0) {
      for (const name of NAMES)
        run[name] += (windows[at + length - 1] as Counts)[name] - (windows[at - 1] as Counts)[name];
    }
    return { ...run };
  });
};

const oneWindow = (): Counts => ({ ...nothing(), spans: 1 });

const ratio = (part: number, of: number): number => (of === 0 ? 0 : part / of);

/** The value nearest to one half in the Wilson interval of a share: it has the largest variance. */
const inside = (share: number, n: number): number => {
  const { low, high } = wilsonInterval(Math.min(1, share) * n, n) ?? { low: 0, high: 1 };
  return Math.min(high, Math.max(low, 0.5));
};

/** Joins every `fine` windows of a phase to one; drops the remainder at its end. */
const grouped = (windows: readonly Counts[], fine: number): Counts[] =>
  Array.from({ length: Math.floor(windows.length / fine) }, (_, at) => sum(windows.slice(at * fine, (at + 1) * fine)));

/**
 * The calm level that windows are compared with. `p`: good first attempts for each first attempt, as the share that varies
 * most within its interval; `dispersion`: their variance between windows divided by that of chance, at least 1. A call that
 * a retry serves counts as served a little later than it was due, and first attempts are not shifted in time.
 */
const levelOf = (windows: readonly Counts[]) => {
  const counts = sum(windows);
  const share = ratio(counts.firstGood, counts.first);
  const near = Math.min(1 - 1 / (counts.first + 2), Math.max(1 / (counts.first + 2), share));
  const off = windows
    .filter(({ first }) => first > 0)
    .map(({ first, firstGood }) => (firstGood - near * first) ** 2 / (first * near * (1 - near)));
  const dispersion = Math.max(1, off.length < PARTS ? 1 : (mean(off) as number));
  return { counts, dispersion, p: inside(share, counts.first) };
};
type Level = ReturnType<typeof levelOf>;

/**
 * The goodput that a phase leads to, in good attempts each moment. `scatter`: the variance between windows divided by their
 * mean. Full slots serve more evenly than a Poisson process, but release places in bunches.
 */
const paceOf = (moments: readonly Counts[], fine: number) => {
  const perMoment = sum(moments).good / Math.max(1, moments.length);
  const due = Math.max(perMoment * fine, 1e-9);
  const off = runsOf(moments, fine).map(({ good }) => (good - due) ** 2 / due);
  return { perMoment, scatter: Math.max(SCATTER_LEAST, mean(off) ?? 1), spans: moments.length };
};
type Pace = ReturnType<typeof paceOf>;

/** Reports whether so many of `n` calls are less likely than `chance` where at most the share `most` is expected. */
const isTooMany = (hits: number, n: number, most: number, chance: number): boolean =>
  hits > 0 && 1 - shareBelow(n, Math.min(1, most), hits - 1) < chance;

const shareBetween = (hits: number, n: number): Interval => wilsonInterval(Math.min(hits, n), n) ?? { low: 0, high: 1 };

/** A window, and the chance with which a good one may look bad. */
type Run = Counts & { readonly chance: number };

/** Reports whether a window's share of good calls is certainly below `RECOVERED` times the calm share. */
const isWorse = ({ first, good, chance }: Run, { counts, dispersion }: Level): boolean => {
  const missed = 1 - RECOVERED * shareBetween(counts.good, counts.first).low;
  // Calls that come and go together are worth fewer.
  const worth = (calls: number): number => Math.floor(Math.max(0, calls) / dispersion);
  return isTooMany(worth(first - good), worth(first), missed, chance);
};

/** Reports whether a window's goodput is certainly below `REACTED` times the pace (Chernoff's bound for a Poisson process). */
const isSlack = ({ good, spans, chance }: Run, pace: Pace): boolean => {
  const due = REACTED * pace.perMoment * spans;
  const scatter = pace.scatter * (1 + spans / pace.spans);
  const rarity = due - good + (good === 0 ? 0 : good * Math.log(good / due));
  return good < due && rarity / scatter > -Math.log(chance);
};

const isSlower = ({ whole, slow, chance }: Run, { counts }: Level): boolean =>
  isTooMany(slow, whole, shareBetween(counts.slow, counts.whole).high + SLOW_MORE, chance);

/** Marks each moment at which a bad window of `fine` moments begins; overlapping windows count as one. */
const badOf = (moments: readonly Counts[], fine: number, isBad: (run: Run) => boolean): boolean[] => {
  const chance = (FALSE_ALARM * fine) / Math.max(1, moments.length);
  const runs = runsOf(moments, fine);
  return moments.map((_, at) => at < runs.length && isBad({ ...(runs[at] as Counts), chance }));
};

/**
 * When every window keeps its level from then on: in (low, high], in milliseconds; `null` without a window. `unsureMs`: how
 * long after the beginning of the phase its fault may have taken effect.
 */
const settledAfter = (moments: readonly Counts[], bad: readonly boolean[], fine: number, unsureMs: number) => {
  if (moments.length < fine) return null;
  const fineMs = FINE_US / 1000;
  const windowMs = fine * fineMs;
  const { first, good } = sum(moments);
  const last = bad.lastIndexOf(true);
  const until = bad.slice(0, last + 1);
  const share = inside(ratio(good, first), first);
  return {
    low: Math.max(0, last * fineMs - unsureMs),
    /** `null` if the level is not kept at the end of the phase. */
    high: last >= moments.length - fine ? null : Math.max(0, last) * fineMs + windowMs,
    unsureMs,
    /** Most windows before `high` missed the level. Otherwise the deployment had settled earlier and was disturbed again. */
    isSteadily: until.filter(Boolean).length >= STEADILY * until.length,
    windowMs,
    /** By how much the share of one window may be off by chance (95 %). */
    resolution: 1.96 * Math.sqrt((share * (1 - share) * moments.length) / fine / Math.max(1, first)),
    calls: first,
  };
};
export type SettledAfter = NonNullable<ReturnType<typeof settledAfter>>;

const stateOf = (now: Counts, { counts, dispersion, p }: Level): "back" | "lost" | "unclear" => {
  if (now.first === 0) return "unclear";
  const { first, good, whole, slow } = counts;
  const error = Math.sqrt(dispersion * p * (1 - p) * (1 / now.first + 1 / first));
  const slowError = Math.sqrt(inside(ratio(slow, whole), whole) * (1 / Math.max(1, now.whole) + 1 / whole));
  const slower = ratio(now.slow, now.whole) - ratio(slow, whole);
  const [share, was] = [ratio(now.good, now.first), ratio(good, first)];
  if (share + SURE * error < LOST * was || slower - SURE * slowError > SLOW_LOST) return "lost";
  const isNoLower = share >= was || (1.96 * error <= SHARP && share + SURE * error >= RECOVERED * was);
  return isNoLower && slower <= SLOW_MORE ? "back" : "unclear";
};

const NEVER = Number.POSITIVE_INFINITY;

type Played = { -readonly [Name in keyof Span]: Span[Name] } & { readonly windows: Counts[] };

/**
 * A fold over the lines of one stage in time order. `spans`: the phases of a step of the load; absent for a step of the
 * capacity, whose phases begin with lines of the fault. `stated`: objectives of the target file about these calls.
 * `end` returns the settling, or a text that says what is lacking.
 */
export const openSettling = (stage: string, spans?: readonly Span[], stated: readonly Objective[] = []) => {
  const statedUs = (of: "answer" | "first event"): number => 1000 * (statedLimitMs(stated, of) ?? NEVER);
  const ofCalm = { stayUs: statedUs("answer"), firstEventUs: statedUs("first event"), slowUs: NEVER };
  const phases: Played[] = (spans ?? []).map((span) => ({ ...span, windows: [] }));
  const stays = new Histogram();
  let ofOthers: typeof ofCalm | null = null;
  let retriesMost = 0;
  let lacking: string | null = null;

  const begin = (phase: Phase, fromUs: number): void => void phases.push({ phase, fromUs, toUs: NEVER, windows: [] });

  const step = (phase: string, atUs: number): void => {
    if (spans !== undefined) lacking = "a stage without a fault of ours";
    const begins = ({ injecting: "strained", healing: "after" } as const)[phase];
    const last = phases.at(-1);
    if (last !== undefined && (phase === "injected" || phase === "healed")) last.surelyUs ??= atUs;
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

  const unsureMs = (wanted: Phase): number => {
    const { fromUs = 0, surelyUs = fromUs } = phases.find(({ phase }) => phase === wanted) ?? {};
    return (surelyUs - fromUs) / 1000;
  };

  /** How many fine windows make one: enough calls, and the median stay, so that windows are nearly independent. */
  const fineOf = (windows: readonly Counts[]): number => {
    const wanted = (GOOD_A_WINDOW / Math.max(1, sum(windows).good)) * windows.length;
    return Math.max(1, Math.min(windows.length, Math.ceil(Math.max((stays.quantile(0.5) ?? 0) / FINE_US, wanted))));
  };

  const end = () => {
    if (lacking !== null) return lacking;
    const [calmFine, strainedFine, afterFine] = [windowsOf("calm"), windowsOf("strained"), windowsOf("after")];
    const [calmAll, all, afterAll] = [sum(calmFine), sum(strainedFine), sum(afterFine)];
    if (calmAll.good < CALLS_MIN) return `${CALLS_MIN} calls served before the step; ${calmAll.good} were`;
    const fewest = Math.min(all.first, afterAll.first);
    if (fewest < CALLS_MIN) return `${CALLS_MIN} calls after the step, and after its end; ${fewest} came`;
    const { slowUs, stayUs } = limits();
    const fineCalm = fineOf(calmFine);
    const calm = levelOf(grouped(calmFine, fineCalm));
    // Calm calls were counted before it was known which of them are slow.
    calm.counts.slow = stays.n === 0 ? 0 : (1 - stays.countUpTo(slowUs) / stays.n) * calm.counts.whole;
    const state = (now: Counts): ReturnType<typeof stateOf> => stateOf(now, calm);
    const half = Math.floor(calmFine.length / 2);
    const [one, other] = [sum(calmFine.slice(0, half)), sum(calmFine.slice(half))];
    const difference = ratio(one.firstGood, one.first) - ratio(other.firstGood, other.first);
    const halfError = Math.sqrt((calm.dispersion * calm.p * (1 - calm.p) * 4) / calmAll.first);

    const settled = strainedFine.slice(strainedFine.length / 2);
    const fineStrained = fineOf(settled);
    const [pace, settledAll] = [paceOf(settled, fineStrained), sum(settled)];
    const isStated = Math.min(ofCalm.stayUs, ofCalm.firstEventUs) < NEVER;
    // If no objective is stated, answers may be as late as after settling.
    const lateMost = isStated ? LATE_SHARE : Math.max(LATE_SHARE, ratio(settledAll.late, settledAll.whole));
    const isLate = ({ late, whole, chance }: Run): boolean => isTooMany(late, whole, lateMost, chance);
    const unsettled = badOf(strainedFine, fineStrained, (now) => isLate(now) || isSlack(now, pace));

    const worse = badOf(afterFine, fineCalm, (now) => isWorse(now, calm) || isSlower(now, calm));
    const states = grouped(afterFine, Math.max(1, Math.floor(afterFine.length / PARTS)))
      .slice(0, PARTS)
      .map(state);
    const last = sum(afterFine.slice(Math.floor((1 - END_SHARE) * afterFine.length)));
    const endState = state(last);
    // A state that is lost at the end has not settled, even if its last windows look well.
    if (endState === "lost") worse[worse.length - 1] = true;
    const again = sum(windowsOf("again"));
    const perWindow = grouped(strainedFine, fineStrained)
      .filter(({ first }) => first > 0)
      .map(({ attempts, first }) => attempts / first);
    const scatter = batchMean(perWindow);
    const off = scatter.high - scatter.value;
    const amplification = ratio(all.attempts, all.first);
    return {
      stage,
      objectiveMs: stayUs / 1000,
      /** Good attempts for each first attempt. */
      calmShare: ratio(calm.counts.good, calm.counts.first),
      /** Both halves of the calm phase are alike. */
      isCalmSteady: Math.abs(difference) <= SURE * halfError,
      /** The calm phase lasted long enough for its calls to fill the deployment. */
      isCalmFilled: calmFine.length * FINE_US >= CALM_STAYS * (stays.quantile(SLOW_QUANTILE) ?? 0),
      /** Windows of the calm phase vary no more than late releases of slots explain. */
      isCalmEven: calm.dispersion <= DISPERSION_MOST,
      /** Share of first attempts that were not served well under strain. */
      strainedLoss: 1 - ratio(all.good, all.first),
      reaction: settledAfter(strainedFine, unsettled, fineStrained, unsureMs("strained")),
      recovery: settledAfter(afterFine, worse, fineCalm, unsureMs("after")),
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
