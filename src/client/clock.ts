/**
 * Monotonic microseconds since a run began. Each process takes `performance.timeOrigin` from the wall clock at its
 * start. The wall clock may step, so a driver's process measures its offset to the runner (open-loop-process.ts).
 */

/** Cached, because reading it costs more than reading the time. */
const ORIGIN_MS = performance.timeOrigin;

/** Microseconds since 1970, without steps while the process lives. */
export const wallUs = (): number => Math.round((ORIGIN_MS + performance.now()) * 1000);

export type RunClock = Readonly<ReturnType<typeof createRunClock>>;

/** `errorUs`: the uncertainty against the runner's clock. */
export const createRunClock = (epochUs: number, offsetUs = 0, errorUs = 0) => ({
  nowUs: (): number => wallUs() + offsetUs - epochUs,
  errorUs,
});
