/**
 * How the rate runs over time, as data: pieces in which the rate goes linearly from one value to another. Our own driver
 * turns pieces into a schedule, k6 turns the same pieces into stages.
 */

/** Rates in calls per second, lengths in seconds. */
export type Piece = { readonly from: number; readonly to: number; readonly durationS: number };

export type Profile = { readonly name: string; readonly pieces: readonly Piece[] };

const piece = (from: number, to: number, durationS: number): Piece => ({ from, to, durationS });

export const constant = (ratePerS: number, durationS: number): Profile => ({
  name: "constant",
  pieces: [piece(ratePerS, ratePerS, durationS)],
});

export const ramp = (fromPerS: number, toPerS: number, durationS: number): Profile => ({
  name: "ramp",
  pieces: [piece(fromPerS, toPerS, durationS)],
});

/** Calm, a jump to `factor` times the rate, calm again for twice as long, so that recovery can be seen. */
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

/** One level after the other, each for as long. Rates in calls per second. */
export const steps = (levels: readonly number[], durationS: number): Profile => ({
  name: "steps",
  pieces: levels.map((level) => piece(level, level, durationS / levels.length)),
});

/** Levels from half the capacity to three times the capacity, so that a knee lies inside. */
const stepsPastCapacity = (
  capacityPerS: number,
  durationS: number,
  levels: readonly number[] = [0.5, 0.8, 1, 1.5, 2, 3],
): Profile => ({
  name: "steps-past-capacity",
  pieces: levels.map((level) => piece(level * capacityPerS, level * capacityPerS, durationS / levels.length)),
});

/** The profiles that `--profile NAME` knows. */
export const PROFILES: Readonly<Record<string, (ratePerS: number, durationS: number) => Profile>> = {
  constant,
  ramp: (ratePerS, durationS) => ramp(0, ratePerS, durationS),
  spike: (ratePerS, durationS) => spike(ratePerS, 5, durationS),
  "steps-past-capacity": (ratePerS, durationS) => stepsPastCapacity(ratePerS, durationS),
};

export const profileDurationS = (profile: Profile): number =>
  profile.pieces.reduce((sum, { durationS }) => sum + durationS, 0);

/** How many calls the profile offers, as an expected number. */
export const profileCalls = (profile: Profile): number =>
  profile.pieces.reduce((sum, { from, to, durationS }) => sum + ((from + to) / 2) * durationS, 0);

/** The highest rate that it reaches. */
export const profilePeakPerS = (profile: Profile): number =>
  profile.pieces.reduce((peak, { from, to }) => Math.max(peak, from, to), 0);

/** The same course with every rate multiplied. */
export const scaleProfile = (profile: Profile, factor: number): Profile => ({
  name: profile.name,
  pieces: profile.pieces.map(({ from, to, durationS }) => piece(from * factor, to * factor, durationS)),
});
