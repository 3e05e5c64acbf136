/** The rate over time (linear pieces, or the calls of a trace), and the one schedule that is made of it. */
import { exponential } from "./random.ts";

/** Rates in calls per second, lengths in seconds. */
export type Piece = { readonly from: number; readonly to: number; readonly durationS: number };

export type Profile = {
  readonly name: string;
  readonly pieces: readonly Piece[];
  /** The calls of a trace, in microseconds after the start, ascending; `pieces` then has the calls of each second. */
  readonly momentsUs?: readonly number[];
  /** The least time between two calls, in microseconds: random arrivals that come closer are moved back, to stay within a permit. */
  readonly leastGapUs?: number;
};

export const level = (ratePerS: number, durationS: number): Piece => ({ from: ratePerS, to: ratePerS, durationS });

const profile = (name: string, ...pieces: Piece[]): Profile => ({ name, pieces });

export const constant = (ratePerS: number, durationS: number) => profile("constant", level(ratePerS, durationS));

export const ramp = (to: number, durationS: number): Profile => profile("ramp", { from: 0, to, durationS });

const SPIKE_TIMES = 5;

/** A baseline, a jump to `SPIKE_TIMES` the rate, and twice as long a baseline, which shows recovery. */
export const spike = (ratePerS: number, durationS: number): Profile => {
  const part = durationS / 4;
  return profile("spike", level(ratePerS, part), level(ratePerS * SPIKE_TIMES, part), level(ratePerS, 2 * part));
};

/** A storm shorter than this has no pause. */
const PAUSED_FROM_S = 60;

/** Baseline, top, baseline. A long storm also has a pause, which ends a self-sustaining overload. */
export const storm = (ratePerS: number, topPerS: number, durationS: number): Profile => {
  const parts = durationS < PAUSED_FROM_S ? [4, 12, 12] : [4, 12, 8, 1, 3];
  const rates = [ratePerS, topPerS, ratePerS, 0, ratePerS];
  return profile("storm", ...parts.map((part, at) => level(rates[at] as number, (durationS * part) / 28)));
};

/** One level after the other, of equal length. Rates in calls per second. */
export const steps = (levels: readonly number[], durationS: number, name = "steps"): Profile =>
  profile(name, ...levels.map((rate) => level(rate, durationS / levels.length)));

/** Levels of the shedding curve, in multiples of the knee. */
export const CURVE_LEVELS = [0.5, 0.7, 0.9, 1, 1.5, 2, 3, 5, 10] as const;
/** The lowest level where nobody knows how many replicas share the load. It lies below half of a knee that is a fifth lower than guessed. */
export const LOWEST_IF_GUESSED = 0.4;
/** The level repeated at the end, which shows whether as much is carried as on the way up. */
const AFTERWARDS = 2;
/** The highest permitted rate is a level of its own if it is above the level before by more than this factor. */
const FURTHER = 1.1;
/** A level's weight in sharing out the time: larger below the knee, where calls are fewer. */
const weightOf = (level: number): number => 1 / Math.min(1, level);

/** The calls by which a share is known to ±1 % (95 %): 1.96² / (4 × 0.01²). */
const LEVEL_CALLS = 9_604;
/** A level as long as this many calls, and at least `LEVEL_MIN_S`, is in steady state for two thirds of its time. */
const LEVEL_STAYS = 7;
const LEVEL_MIN_S = 8;

/**
 * The levels up to `maxPerS`, rising and falling, then twice the knee once more. Each gets its share of the time. A level
 * that has enough calls sooner is shorter, if `stayS`, the time that a call takes, is known. One level at `maxPerS`
 * replaces those above it, because the knee may be higher than was thought.
 */
export const upAndDown = (
  ratePerS: number,
  durationS: number,
  maxPerS = Number.POSITIVE_INFINITY,
  stayS = Number.POSITIVE_INFINITY,
  lowest: number = CURVE_LEVELS[0],
): Profile => {
  const kneePerS = Math.min(ratePerS, maxPerS / lowest);
  const permitted = [lowest, ...CURVE_LEVELS.slice(1)].filter((level) => level * kneePerS <= maxPerS);
  const most = Math.min(maxPerS / kneePerS, CURVE_LEVELS.at(-1) as number);
  const up = most > FURTHER * (permitted.at(-1) as number) ? [...permitted, most] : permitted;
  const levels = [...up, ...up.slice(0, -1).reverse(), ...up.filter((level) => level === AFTERWARDS)];
  const unitS = durationS / levels.reduce((sum, level) => sum + weightOf(level), 0);
  const pieces = levels.map((at) => {
    const enoughS = Math.max(LEVEL_MIN_S, LEVEL_CALLS / (at * kneePerS), LEVEL_STAYS * stayS);
    return level(at * kneePerS, Math.min(unitS * weightOf(at), enoughS));
  });
  return profile("up-and-down", ...pieces);
};

/** The multiples of the knee that a curve of `upAndDown` does not reach. */
export const levelsBeyond = ({ pieces }: Pick<Profile, "pieces">, lowest: number = CURVE_LEVELS[0]): number[] => {
  const rates = pieces.map(({ from }) => from);
  const kneePerS = (rates[0] as number) / lowest;
  const most = Math.max(...rates);
  return CURVE_LEVELS.filter((level) => level * kneePerS > 1.01 * most);
};

const repeated = (name: string, times: number, period: Piece[]): Profile =>
  profile(name, ...new Array<Piece[]>(times).fill(period).flat());

/** The profiles that `--profile NAME` knows. */
export const PROFILES: Readonly<Record<string, (ratePerS: number, durationS: number) => Profile>> = {
  constant,
  ramp,
  steps: (rate, s) => steps([0.25 * rate, 0.5 * rate, 0.75 * rate, rate], s),
  spike,
  // Rises from 0 to the rate and drops at once, like the load of retries or of an expiring cache.
  sawtooth: (rate, s) => repeated("sawtooth", 4, [{ from: 0, to: rate, durationS: s / 4 }]),
  // The rate for a quarter of each period, then no calls, like the load of jobs that a clock starts.
  bursts: (rate, s) => repeated("bursts", 5, [level(rate, s / 5 / 4), level(0, 3 * (s / 5 / 4))]),
  // From half to three times the capacity, so that the knee lies inside.
  "steps-past-capacity": (rate, s) =>
    steps([0.5 * rate, 0.8 * rate, rate, 1.5 * rate, 2 * rate, 3 * rate], s, "steps-past-capacity"),
};

export const profileDurationS = (profile: Profile) => profile.pieces.reduce((sum, { durationS }) => sum + durationS, 0);

export const profileCalls = (profile: Profile): number =>
  profile.pieces.reduce((sum, { from, to, durationS }) => sum + ((from + to) / 2) * durationS, 0);

export const profilePeakPerS = (profile: Profile): number =>
  profile.pieces.reduce((peak, { from, to }) => Math.max(peak, from, to), 0);

/** Multiplies every rate. A trace keeps its calls, so its time is scaled instead. */
export const scaleProfile = ({ name, pieces, momentsUs }: Profile, factor: number): Profile => {
  const slower = momentsUs === undefined ? 1 : factor;
  const scaled = pieces.map((one) => ({
    from: one.from * factor,
    to: one.to * factor,
    durationS: one.durationS / slower,
  }));
  return { name, pieces: scaled, momentsUs: momentsUs?.map((us) => Math.round(us / factor)) };
};

/** Calls of each second; a silence is one piece of any length. */
const secondsOf = (momentsUs: readonly number[]): Piece[] => {
  const calls = new Map<number, number>();
  for (const second of momentsUs.map((us) => Math.floor(us / 1e6))) calls.set(second, (calls.get(second) ?? 0) + 1);
  let endS = 0;
  return [...calls].flatMap(([second, count]) => {
    const silence = second > endS ? [level(0, second - endS)] : [];
    endS = second + 1;
    return [...silence, level(count, 1)];
  });
};

/** The profile of a log's calls (milliseconds from any zero, ascending), by default all of them at their own average rate. */
export const traceProfile = (
  atMs: readonly number[],
  { ratePerS, durationS }: { ratePerS?: number; durationS?: number } = {},
): Profile => {
  const firstMs = atMs[0] ?? 0;
  const wholeS = ((atMs.at(-1) ?? firstMs) - firstMs) / 1000;
  const ownPerS = wholeS > 0 ? (atMs.length - 1) / wholeS : 1;
  const factor = (ratePerS ?? ownPerS) / ownPerS;
  const most = durationS === undefined ? Number.POSITIVE_INFINITY : durationS * 1e6;
  const momentsUs: number[] = [];
  for (const ms of atMs) {
    const us = Math.round(((ms - firstMs) * 1000) / factor);
    if (us >= most) break;
    momentsUs.push(us);
  }
  return { name: "replay", pieces: secondsOf(momentsUs), momentsUs };
};

// The one schedule: when each call is due, fixed before the first leaves. Latency counts from that moment, so a
// stall cannot hide the calls that it delayed (coordinated omission). The k-th arrival is where the integral of the
// rate reaches the k-th point of a unit process: k for `uniform`, the sum of k exponential gaps for `poisson`.

export type Arrivals = "uniform" | "poisson";

/** If more than one call in a hundred leaves later than this, no claim about time is made. */
export const LATE_MS = 250;

const GAP_SALT = 0x41525256;

/** Seconds into a piece at which `wanted` calls have been offered; the rate runs linearly from `from` to `to`. */
const secondsUntil = (wanted: number, from: number, to: number, durationS: number): number => {
  if (wanted <= 0) return 0;
  const slope = (to - from) / durationS;
  if (Math.abs(slope) < 1e-12) return wanted / from;
  // from·t + slope·t²/2 = wanted, solved without subtracting two near numbers.
  return (2 * wanted) / (from + Math.sqrt(Math.max(0, from * from + 2 * slope * wanted)));
};

/**
 * Yields the arrivals of a profile in constant memory: microseconds after the start, ascending. Those of a trace stay as they are.
 */
export function* scheduleOf(profile: Profile, arrivals: Arrivals, seed: number): Generator<number> {
  const { pieces, momentsUs, leastGapUs = 0 } = profile;
  if (momentsUs !== undefined) {
    yield* momentsUs;
    return;
  }
  let k = 0;
  let point = arrivals === "uniform" ? 0 : exponential(seed, 0, GAP_SALT);
  let offeredBefore = 0;
  let secondsBefore = 0;
  let freeUs = 0;
  for (const { from, to, durationS } of pieces) {
    const offered = ((from + to) / 2) * durationS;
    while (point < offeredBefore + offered) {
      const atUs = (secondsBefore + secondsUntil(point - offeredBefore, from, to, durationS)) * 1e6;
      const dueUs = Math.round(Math.max(atUs, freeUs));
      freeUs = dueUs + leastGapUs;
      yield dueUs;
      k += 1;
      point = arrivals === "uniform" ? k : point + exponential(seed, k, GAP_SALT);
    }
    offeredBefore += offered;
    secondsBefore += durationS;
  }
}

export const countArrivals = (...of: Parameters<typeof scheduleOf>): number => {
  let count = 0;
  for (const _ of scheduleOf(...of)) count += 1;
  return count;
};

export const arrivalTimesUs = (...of: Parameters<typeof scheduleOf>): number[] => [...scheduleOf(...of)];
