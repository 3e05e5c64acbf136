/**
 * The clock of a run: microseconds since the run began, on a monotonic source. Two processes of one host both count from
 * `performance.timeOrigin`, which each takes from the wall clock at its own start; a step of the wall clock in between
 * would part them, so a driver process measures its offset against the runner (open-loop-process.ts).
 */

export type RunClock = {
  nowUs(): number;
  /** How far it may be from the runner's clock, in microseconds. */
  readonly errorUs: number;
};

/** It never changes, and to ask for it costs more than to ask for the time. */
const ORIGIN_MS = performance.timeOrigin;

/** Microseconds since 1970, by a clock that does not step while the process lives. */
export const wallUs = (): number => Math.round((ORIGIN_MS + performance.now()) * 1000);

export const createRunClock = (epochUs: number, offsetUs = 0, errorUs = 0): RunClock => ({
  nowUs: () => wallUs() + offsetUs - epochUs,
  errorUs,
});
