/**
 * Folds the lines of one stage into its curve. Each call is kept as a few numbers, because start, objective and warm-up
 * are known only after the last one. A schedule has at most six minutes; beyond `CALLS_MOST` there is no curve.
 */
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import { streamResult } from "../contract/streams.ts";
import { type CallLine, classOf, type Line, stayMs } from "../history/line.ts";
import type { Objective } from "../history/objectives.ts";
import { Histogram } from "../history/statistics/histogram.ts";
import * as statistics from "../history/statistics/statistics.ts";
import type { Beside, CallObjective, Curve, CurveLevel, PlannedLevel, Quantiles } from "./curve.ts";
import { batchMean, type KneeOfLevels, kneeOfLevels, medianOf, overlap } from "./knee.ts";
import { isAdmitted, LATENCY } from "./knee-of-ramp.ts";
import { dispersionOf } from "./shed-windows.ts";

type CurveOptions = {
  readonly stage: string;
  readonly planned: readonly PlannedLevel[];
  /** Objectives of the target file about these calls; only those of a p99 or above bind a single call. */
  readonly stated?: readonly Objective[];
  readonly closedForm?: Curve["closedForm"];
  /** The number of replicas, if known; otherwise the fit tries several. */
  readonly replicas?: number;
  readonly notPlayed?: readonly number[];
};

type Kept = Pick<CallLine, "intended_us" | "sent_us" | "done_us" | "outcome" | "org"> & {
  firstEventUs: number | undefined;
  events: number;
  result: ReturnType<typeof streamResult>;
  isAdmitted: boolean;
  isWhole: boolean;
  /** Admitted calls in flight when this one was sent (`noteInFlight`). */
  inFlight: number;
  /** A neighbour was admitted, although it found more in flight. */
  hadRoom: boolean;
};

const keptOf = (line: CallLine): Kept => {
  const { intended_us, sent_us, done_us, first_event_us: firstEventUs, outcome, org, events = 0 } = line;
  const result = streamResult(line);
  const isWhole = result === "whole" && /^2\d\d$/.test(outcome);
  // The object is written without a spread, which would be slow for up to two million calls.
  return {
    intended_us,
    sent_us,
    done_us,
    firstEventUs,
    outcome,
    org,
    events,
    result,
    isAdmitted: isAdmitted(line),
    isWhole,
    inFlight: 0,
    hadRoom: false,
  };
};

/** Where the items of a span begin and end. `sorted`: by `usOf`. */
const within = <T>(sorted: ArrayLike<T>, usOf: (item: T) => number, fromUs: number, toUs: number): [number, number] => {
  const firstFrom = (us: number): number => {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (usOf(sorted[middle] as T) < us) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return [firstFrom(fromUs), firstFrom(toUs)];
};

export const CALLS_MOST = 2_000_000;
/** The whole answers needed at the calmest level, or at the two calmest, to know how long a call takes. */
const CALM_CALLS = 20;
/** The objective of a call if none is stated: three times the calm p99, and what a busy machine adds. */
export const CALM_TIMES = 3;
export const CALM_ADDED_MS = 100;
/** The objective of the most patient caller: concurrent calls slow down by the number of calls in flight. */
const PATIENT_TIMES = 10;
const PATIENT_ADDED_MS = 1_000;
/**
 * Calls of the level before are in flight for about two medians. The warm-up is at least half a second and at most a third of a
 * level; where a third is shorter than one median, the level is cut.
 */
const WARM_UP_STAYS = 2;
const WARM_UP_MIN_S = 0.5;
const WARM_UP_SHARE = 1 / 3;
const BATCHES = 20;
/**
 * Where a level holds at least so many stays, a batch of its goodput lasts as long as a stay, in which full slots serve one
 * call each. Fewer batches show little of their scatter; ends of calls are nearly independent, so there are `BATCHES` then.
 */
const STAYS_ENOUGH = 6;
/** Above this share of calls refused or late a level is past the knee: at the knee itself eight slots refuse 24 %. */
const PAST_KNEE = 0.25;
const ORGANIZATIONS_MOST = 256;
const WINDOW_CALLS = 10;

type Told = { call: Kept; end: "good" | "late" | "shed" | "failed" | "aborted"; outcome: string };

const firstMs = ({ intended_us: due, firstEventUs, done_us: done }: Kept): number =>
  ((firstEventUs ?? done) - due) / 1000;

const toldOf = (call: Kept, { firstEventMs, stayMs: mostMs }: CallObjective): Told => {
  const { outcome, result } = call;
  const told = (end: Told["end"], as = outcome): Told => ({ call, end, outcome: as });
  if (call.isWhole) return told(firstMs(call) <= firstEventMs && stayMs(call) <= mostMs ? "good" : "late");
  if (result === "left") return told("aborted");
  if (SHED_OUTCOMES.has(outcome)) return told("shed");
  return told("failed", classOf(outcome) === "answered" && result === "cut" ? "cut" : outcome);
};

const quantilesOf = (ms: readonly number[]): Quantiles => {
  const p99 = statistics.quantileRanks(ms.length, 0.99) === null ? null : statistics.quantile(ms, 0.99);
  return { p50: statistics.median(ms), p99 };
};

/** The p99 by nearest rank, which also exists for few values. */
const p99 = (ms: readonly number[]): number =>
  (Histogram.of(ms.map((value) => value * 1000)).quantile(0.99) ?? 0) / 1000;

/** Fewer calls do not show how many are in flight when one is shed or admitted. */
const IN_FLIGHT_CALLS = 5;
const inFlightOf = (some: readonly Told[], quantile: number): number | null =>
  some.length < IN_FLIGHT_CALLS
    ? null
    : statistics.quantile(
        some.map(({ call }) => call.inFlight),
        quantile,
      );

/** The strictest stated limit of a single call (a p99 or above), in milliseconds; `null` if there is none. */
export const statedLimitMs = (stated: readonly Objective[], of: "answer" | "first event"): number | null => {
  const limits = stated.flatMap((one) =>
    one.kind === "time" && one.of === of && one.quantile >= 0.99 ? [one.limit] : [],
  );
  return limits.length === 0 ? null : Math.min(...limits);
};

const objectiveOf = (calmStaysMs: readonly number[], stated: readonly Objective[]): CallObjective => {
  const [first, stay] = [statedLimitMs(stated, "first event"), statedLimitMs(stated, "answer")];
  const calmMs = stay ?? CALM_TIMES * p99(calmStaysMs) + CALM_ADDED_MS;
  return {
    // Unless it is stated, a first event may come as late as a whole answer: a short queue is no failure.
    firstEventMs: first ?? calmMs,
    stayMs: calmMs,
    from: first === null && stay === null ? "calm" : "stated",
  };
};

/** The objective of the most patient caller; never stricter than the given one. */
const patientObjective = (calmStaysMs: readonly number[], { firstEventMs, stayMs }: CallObjective): CallObjective => {
  const patientMs = PATIENT_TIMES * (statistics.mean(calmStaysMs) ?? 0) + PATIENT_ADDED_MS;
  return { from: "calm", firstEventMs: Math.max(patientMs, firstEventMs), stayMs: Math.max(patientMs, stayMs) };
};

const countBy = (some: readonly Told[]): Record<string, number> => {
  const groups = Map.groupBy(some, ({ outcome }) => outcome);
  return Object.fromEntries(groups.entries().map(([outcome, all]) => [outcome, all.length]));
};

type Frame = {
  readonly startUs: number;
  readonly warmUpS: number;
  readonly calmS: number;
  /** When admitted calls ended, and the good ones of them, in order. */
  readonly doneUs: Float64Array;
  readonly goodDoneUs: Float64Array;
};

/** Judges a level; adds the calls, windows and carried rates that the curve is computed from. `all`: sorted by the time at which a call was due. */
const judgeLevel = (planned: PlannedLevel, all: readonly Told[], retries: number, frame: Frame) => {
  const { startUs, warmUpS, calmS, doneUs, goodDoneUs } = frame;
  const { pass, ratePerS } = planned;
  const fromUs = startUs + planned.fromUs + Math.min(warmUpS * 1e6, WARM_UP_SHARE * (planned.toUs - planned.fromUs));
  const toUs = startUs + planned.toUs;
  const judgedS = (toUs - fromUs) / 1e6;
  const told = all.slice(...within(all, ({ call }) => call.intended_us, fromUs, toUs));
  const calls = told.map(({ call }) => call);
  const endedIn = (end: Told["end"]): Told[] => told.filter((one) => one.end === end);
  const perBatch = (momentsUs: Iterable<number>, batches: number): number[] => {
    const counts = new Array<number>(batches).fill(0);
    for (const us of momentsUs) {
      const batch = Math.floor(((us - fromUs) / (toUs - fromUs)) * batches);
      if (batch < batches) counts[batch] = (counts[batch] as number) + 1;
    }
    return counts;
  };
  // Calls that find the deployment full come together, so these batches last as long as a call.
  const long = Math.min(BATCHES, Math.max(2, Math.floor(judgedS / calmS)));
  const dueIn = (some: readonly Told[], batches = long): number[] => {
    const dueUs = some.map(({ call }) => call.intended_us);
    return perBatch(dueUs, batches);
  };
  const endedOf = (momentsUs: Float64Array, batches: number): number[] =>
    perBatch(momentsUs.subarray(...within(momentsUs, (us) => us, fromUs, toUs)), batches);
  const perS = (counts: readonly number[]): number[] => counts.map((n) => (n * counts.length) / judgedS);
  const [good, late, shed, failed] = [endedIn("good"), endedIn("late"), endedIn("shed"), endedIn("failed")];
  const admitted = told.filter(({ call }) => call.isAdmitted);
  const whole = calls.filter(({ isWhole }) => isWhole);
  const staysMs = whole.map(stayMs);
  const windows = Math.floor(judgedS / Math.max(0.1, calmS, WINDOW_CALLS / ratePerS));
  const [wentIn, cameOut] = [dueIn(admitted), endedOf(doneUs, long)];
  // A growing queue takes in more than it completes, a shrinking one less: the smaller rate is the carried one.
  const carried = (statistics.mean(wentIn) ?? 0) < (statistics.mean(cameOut) ?? 0) ? wentIn : cameOut;
  const eventsOf = (some: readonly Told[]): number => some.reduce((sum, { call: { events } }) => sum + events, 0);
  const lags = calls.map(({ intended_us: due, sent_us: sent }) => (sent - due) / 1000);
  const level: Omit<CurveLevel, "room"> = {
    ...{ pass, ratePerS, judgedS, retries, offered: calls.length, good: good.length, late: late.length },
    shed: countBy(shed),
    failed: countBy(failed),
    aborted: endedIn("aborted").length,
    // A queue takes in more than is served while it grows, and less while it shrinks: what comes out is the goodput.
    goodputPerS: batchMean(perS(endedOf(goodDoneUs, long < STAYS_ENOUGH ? BATCHES : long))),
    shedShare: shareOf(dueIn(shed), dueIn(told)),
    shedDispersion: dispersionOf(dueIn(told, windows), dueIn(shed, windows)),
    shedsAt: inFlightOf(
      shed.filter(({ call }) => !call.hadRoom),
      0.5,
    ),
    admitsAt: inFlightOf(admitted, 0.9),
    stayMs: quantilesOf(staysMs),
    stayMedianMs: medianOf(staysMs),
    firstEventMs: quantilesOf(whole.map(firstMs)),
    refusalMs: quantilesOf(shed.map(({ call }) => stayMs(call))),
    lagMs: lags.length === 0 ? null : p99(lags),
    events: eventsOf(told),
    wastedEvents: eventsOf(late) + eventsOf(failed.filter(({ outcome }) => outcome === "cut")),
  };
  const refused = calls.length - admitted.length;
  return {
    ...{ level, told },
    carried: { ratePerS, batches: perS(carried), isQueue: late.length > good.length },
    isPast: Math.max(refused, late.length) >= PAST_KNEE * Math.max(1, calls.length),
  };
};
type Judged = ReturnType<typeof judgeLevel>;

/** So many calls sent just before a call, and as many just after it, show what the deployment admitted at that moment. */
const NEIGHBOURS = 4;

/** Notes on each call what it found when it was sent. `ends`: when admitted calls ended, in order. */
const noteInFlight = (calls: readonly Kept[], ends: Float64Array): void => {
  const ordered = calls.toSorted((a, b) => a.sent_us - b.sent_us);
  let [admitted, ended] = [0, 0];
  for (const call of ordered) {
    while ((ends[ended] ?? Number.POSITIVE_INFINITY) <= call.sent_us) ended += 1;
    call.inFlight = admitted - ended;
    if (call.isAdmitted) admitted += 1;
  }
  for (const [at, call] of ordered.entries()) {
    for (let near = Math.max(0, at - NEIGHBOURS); near <= at + NEIGHBOURS && near < ordered.length; near++) {
      const neighbour = ordered[near] as Kept;
      call.hadRoom ||= neighbour.isAdmitted && neighbour.inFlight > call.inFlight;
    }
  }
};

/** The usual number of places is this quantile of the calls in flight past the knee: a limit that adapts has peaks. */
const USUALLY = 0.75;
/** Most places count as free up to the first share of them in use, and as taken from the second share on. */
const FREE = 0.5;
const TAKEN = 0.75;

/** `places`: how many calls are usually in flight past the knee. */
const roomOf = (told: readonly Told[], places: number | null): CurveLevel["room"] => {
  if (places === null) return null;
  const beside = (isMeant: (inFlight: number) => boolean): Beside => {
    const some = told.filter(({ call }) => isMeant(call.inFlight));
    const shed = some.filter(({ end }) => end === "shed");
    const withRoom = shed.filter(({ call }) => call.hadRoom).length;
    const inFlight = statistics.mean(some.map(({ call }) => call.inFlight)) ?? 0;
    return { calls: some.length, shed: shed.length, withRoom, inFlight };
  };
  return { free: beside((n) => n <= FREE * places), taken: beside((n) => n >= TAKEN * places && n < places) };
};

/** A share by batches of unequal size (Cochran, "Sampling Techniques", section 6.4). */
const shareOf = (hits: readonly number[], of: readonly number[]): CurveLevel["shedShare"] => {
  const all = of.reduce((sum, n) => sum + n, 0);
  const share = all === 0 ? 0 : hits.reduce((sum, n) => sum + n, 0) / all;
  const size = all / of.length;
  const off = hits.map((n, at) => (n - share * (of[at] as number)) / Math.max(1, size));
  const { low, high } = batchMean(off.map((value) => value + share));
  return { value: share, low: Math.max(0, low), high: Math.min(1, high) };
};

const ofWays = (judged: readonly Judged[], ...ways: CurveLevel["pass"][]): Judged[] => {
  const levels = judged.filter(({ level }) => ways.includes(level.pass) && level.offered > 0);
  return levels.sort((a, b) => a.level.ratePerS - b.level.ratePerS);
};

const kneeByOf = (told: readonly Told[]): string | null => {
  const refused = countBy(told.filter(({ end }) => end === "shed" || end === "failed"));
  const late = told.filter(({ end }) => end === "late").length;
  const [by, most] = Object.entries(refused).sort(([, a], [, b]) => b - a)[0] ?? [null, 0];
  return late > most ? LATENCY : by;
};

const organizationsOf = (told: readonly Told[]): Curve["organizations"] => {
  const known = told.filter(({ call }) => call.org !== "-");
  const byName = [...Map.groupBy(known, ({ call }) => call.org)].sort(([one], [other]) => (one < other ? -1 : 1));
  if (byName.length > ORGANIZATIONS_MOST) return null;
  return byName.map(([org, all]) => {
    return { org, offered: all.length, good: all.filter(({ end }) => end === "good").length };
  });
};

/**
 * A fold over lines of a run, in any order. `end` takes the start of the schedule in microseconds (by default the
 * moment when the first call was due) and returns the curve, or a text that says what is lacking.
 */
export const openCurve = (options: CurveOptions) => {
  const { stage, planned, stated = [], closedForm = null, notPlayed = [] } = options;
  const first: Kept[] = [];
  const retries: number[] = [];
  let folded = 0;

  const see = (line: Line): void => {
    if (line.stage !== stage) return;
    if (line.type === "fold") folded += line.offered;
    if (line.type !== "call" || line.unscheduled !== undefined || first.length >= CALLS_MOST) return;
    if (line.attempt > 0) retries.push(line.intended_us);
    else first.push(keptOf(line));
  };

  const end = (start?: number): Curve | string => {
    if (folded > 0) return `every call whole; ${folded} were folded into seconds`;
    if (first.length >= CALLS_MOST) return `at most ${CALLS_MOST} calls`;
    first.sort((a, b) => a.intended_us - b.intended_us);
    const startUs = start ?? first[0]?.intended_us ?? 0;
    const [calmest, nearlyCalm = calmest] = planned;
    if (calmest === undefined || nearlyCalm === undefined) return "a schedule";
    const wholeUntil = (toUs: number): Kept[] =>
      first.filter((call) => call.intended_us < startUs + toUs && call.isWhole);
    const lowest = wholeUntil(calmest.toUs);
    // The second level lies below the knee as well; slower calls there only make the objective more patient.
    const calm = lowest.length < CALM_CALLS ? wholeUntil(nearlyCalm.toUs) : lowest;
    if (calm.length < CALM_CALLS) {
      const times = calm.length === 0 ? "for longer" : `${Math.ceil(CALM_CALLS / calm.length) + 1} times as long`;
      return `${CALM_CALLS} whole answers at the two lowest rates (${calm.length} came), so play it ${times} (\`--duration\`)`;
    }
    const calmStaysMs = calm.map(stayMs);
    const calmS = (statistics.median(calmStaysMs) as number) / 1000;
    const levelS = Math.min(...planned.map(({ fromUs, toUs }) => toUs - fromUs)) / 1e6;
    const warmUpS = Math.max(WARM_UP_MIN_S, WARM_UP_STAYS * calmS);
    const objective = objectiveOf(calmStaysMs, stated);
    const admitted = first.filter((call) => call.isAdmitted);
    const doneUs = statistics.ascending(admitted.map(({ done_us: us }) => us));
    const about = {
      most: statistics.mostAtOnce(admitted.map(({ sent_us: sent, done_us: done }) => [sent, done] as const)),
      stayS: calm.reduce((sum, { sent_us: sent, done_us: done }) => sum + (done - sent), 0) / calm.length / 1e6,
      replicas: options.replicas ?? closedForm?.replicas,
    };
    const kneeOf = (levels: readonly Judged[]): KneeOfLevels | null =>
      kneeOfLevels(
        levels.filter(({ isPast }) => isPast).map(({ carried }) => carried),
        levels.map(({ carried }) => carried),
        about,
      );
    noteInFlight(first, doneUs);
    const curveBy = (objective: CallObjective, patient: Curve["patient"]): Curve => {
      const told = first.map((call) => toldOf(call, objective));
      const goodDoneUs = statistics.ascending(told.filter(({ end }) => end === "good").map(({ call }) => call.done_us));
      const frame: Frame = { startUs, warmUpS, calmS, doneUs, goodDoneUs };
      const judged = planned.map((level) => {
        const isIn = (us: number): boolean => us >= startUs + level.fromUs && us < startUs + level.toUs;
        return judgeLevel(level, told, retries.filter(isIn).length, frame);
      });
      const up = ofWays(judged, "up");
      const before = kneeOf(up);
      const after = kneeOf(ofWays(judged, "down", "after"));
      const isOne = before !== null && after !== null && overlap(before.knee, after.knee);
      const overall = isOne ? kneeOf(ofWays(judged, "up", "down", "after")) : before;
      const past = up.filter(({ isPast }) => isPast).flatMap(({ told }) => told);
      const allPast = judged.filter(({ isPast }) => isPast).flatMap(({ told }) => told);
      const places = inFlightOf(allPast, USUALLY);
      return {
        ...{ stage, objective, closedForm, notPlayed, patient },
        warmUp: { seconds: Math.min(warmUpS, WARM_UP_SHARE * levelS), isCut: calmS > WARM_UP_SHARE * levelS },
        levels: judged.map(({ level, told }) => ({ ...level, room: roomOf(told, places) })),
        serviceMs: about.stayS * 1000,
        knee: { before: before?.knee ?? null, after: after?.knee ?? null, overall: overall?.knee ?? null },
        models: overall?.systems ?? [],
        organizations: organizationsOf(past),
        kneeBy: kneeByOf(past),
      };
    };
    const isStated = objective.from === "stated";
    return curveBy(objective, isStated ? null : () => curveBy(patientObjective(calmStaysMs, objective), null));
  };
  return { see, end };
};
