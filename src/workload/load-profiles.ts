/**
 * The rate over time, as data: pieces in which it is linear, or the moments of a trace (trace.ts). arrivals.ts makes a
 * schedule of either.
 */

/** Rates in calls per second, lengths in seconds. */
export type Piece = { readonly from: number; readonly to: number; readonly durationS: number };

export type Profile = {
  readonly name: string;
  readonly pieces: readonly Piece[];
  /**
   * For a trace: when each call is due, microseconds after the start, ascending. Its pieces are the calls of each
   * second.
   */
  readonly momentsUs?: readonly number[];
};

const piece = (from: number, to: number, durationS: number): Piece => ({ from, to, durationS });

export const constant = (ratePerS: number, durationS: number): Profile => ({
  name: "constant",
  pieces: [piece(ratePerS, ratePerS, durationS)],
});

export const ramp = (fromPerS: number, toPerS: number, durationS: number): Profile => ({
  name: "ramp",
  pieces: [piece(fromPerS, toPerS, durationS)],
});

/** A baseline, a jump to `factor` times the rate, and twice as long a baseline, which shows recovery. */
export const spike = (ratePerS: number, factor: number, durationS: number): Profile => {
  const part = durationS / 4;
  return {
    name: "spike",
    pieces: [
      piece(ratePerS, ratePerS, part),
      piece(ratePerS * factor, ratePerS * factor, part),
      piece(ratePerS, ratePerS, 2 * part),
    ],
  };
};

/** Shorter than this, a storm has no pause. */
const PAUSED_FROM_S = 60;

/**
 * A baseline, a top, and the baseline again. A long one is followed by a pause and some more of the baseline: a state that
 * only its own load keeps up ends with the pause.
 */
export const storm = (ratePerS: number, topPerS: number, durationS: number): Profile => {
  const parts = durationS < PAUSED_FROM_S ? [4, 12, 12] : [4, 12, 8, 1, 3];
  const rates = [ratePerS, topPerS, ratePerS, 0, ratePerS];
  const pieces = parts.map((part, at) => {
    const rate = rates[at] as number;
    return piece(rate, rate, (durationS * part) / 28);
  });
  return { name: "storm", pieces };
};

/** One level after the other, of equal length. Rates in calls per second. */
export const steps = (levels: readonly number[], durationS: number): Profile => ({
  name: "steps",
  pieces: levels.map((level) => piece(level, level, durationS / levels.length)),
});

/** From 0 up to the rate and down at once, `teeth` times, as retries or an expiring cache do. */
export const sawtooth = (ratePerS: number, durationS: number, teeth = 4): Profile => ({
  name: "sawtooth",
  pieces: Array.from({ length: teeth }, () => piece(0, ratePerS, durationS / teeth)),
});

/** The rate for a quarter of each period, then nothing, as callers started by a clock do. */
export const bursts = (ratePerS: number, durationS: number, periods = 5): Profile => {
  const onS = durationS / periods / 4;
  return {
    name: "bursts",
    pieces: Array.from({ length: periods }, () => [piece(ratePerS, ratePerS, onS), piece(0, 0, 3 * onS)]).flat(),
  };
};

/** Levels from half to three times the capacity, so that the knee lies inside. */
const stepsPastCapacity = (
  capacityPerS: number,
  durationS: number,
  levels: readonly number[] = [0.5, 0.8, 1, 1.5, 2, 3],
): Profile => ({
  name: "steps-past-capacity",
  pieces: levels.map((level) => piece(level * capacityPerS, level * capacityPerS, durationS / levels.length)),
});

/** Levels of the shedding curve, in multiples of the knee. */
export const CURVE_LEVELS = [0.5, 0.7, 0.9, 1, 1.5, 2, 3, 5, 10] as const;
/** The level that shows, once calm has returned, whether as much is carried as before. */
const AFTERWARDS = 2;
/** Seconds at which a level counts for its share of the time: longer below the knee, where calls are fewer. */
const weightOf = (level: number): number => 1 / Math.min(1, level);

/** By so many calls a share is known to ±1 % (95 %): 1.96² / (4 × 0.01²). */
const LEVEL_CALLS = 9_604;
/** A level that lasts so many calls' stays, and so many seconds, is settled for two thirds of its time. */
const LEVEL_STAYS = 7;
const LEVEL_MIN_S = 8;

/**
 * The levels up to `maxPerS`, up and down again, then twice the knee once more. Each has its share of the time, or less
 * where it makes enough calls before that; `stayS`: how long a call takes, without which none is shorter.
 */
export const upAndDown = (
  kneePerS: number,
  durationS: number,
  maxPerS = Number.POSITIVE_INFINITY,
  stayS = Number.POSITIVE_INFINITY,
): Profile => {
  const up = CURVE_LEVELS.filter((level) => level * kneePerS <= maxPerS);
  const levels = [...up, ...up.slice(0, -1).reverse(), ...up.filter((level) => level === AFTERWARDS)];
  const unitS = durationS / levels.reduce((sum, level) => sum + weightOf(level), 0);
  return {
    name: "up-and-down",
    pieces: levels.map((level) => {
      const perS = level * kneePerS;
      const enoughS = Math.max(LEVEL_MIN_S, LEVEL_CALLS / perS, LEVEL_STAYS * stayS);
      return piece(perS, perS, Math.min(unitS * weightOf(level), enoughS));
    }),
  };
};

/** The profiles that `--profile NAME` knows. */
export const PROFILES: Readonly<Record<string, (ratePerS: number, durationS: number) => Profile>> = {
  constant,
  ramp: (ratePerS, durationS) => ramp(0, ratePerS, durationS),
  steps: (ratePerS, durationS) =>
    steps(
      [0.25, 0.5, 0.75, 1].map((share) => share * ratePerS),
      durationS,
    ),
  spike: (ratePerS, durationS) => spike(ratePerS, 5, durationS),
  sawtooth: (ratePerS, durationS) => sawtooth(ratePerS, durationS),
  bursts: (ratePerS, durationS) => bursts(ratePerS, durationS),
  "steps-past-capacity": (ratePerS, durationS) => stepsPastCapacity(ratePerS, durationS),
};

export const profileDurationS = (profile: Profile): number =>
  profile.pieces.reduce((sum, { durationS }) => sum + durationS, 0);

/** The expected number of calls. */
export const profileCalls = (profile: Profile): number =>
  profile.pieces.reduce((sum, { from, to, durationS }) => sum + ((from + to) / 2) * durationS, 0);

export const profilePeakPerS = (profile: Profile): number =>
  profile.pieces.reduce((peak, { from, to }) => Math.max(peak, from, to), 0);

/** Multiplies every rate. A trace keeps its calls, so its time is scaled instead. */
export const scaleProfile = (profile: Profile, factor: number): Profile => {
  const { name, pieces, momentsUs } = profile;
  if (momentsUs !== undefined) {
    return {
      name,
      pieces: pieces.map(({ from, to, durationS }) => piece(from * factor, to * factor, durationS / factor)),
      momentsUs: momentsUs.map((us) => Math.round(us / factor)),
    };
  }
  return { name, pieces: pieces.map(({ from, to, durationS }) => piece(from * factor, to * factor, durationS)) };
};
