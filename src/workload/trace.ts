/**
 * The calls of an access log as a load profile: when they came, and nothing else of it. What a call asks for and as whom is the
 * scenario's affair.
 */
import type { Piece, Profile } from "./load-profiles.ts";

type TraceWish = {
  /** Calls per second on average; the trace's own where it is absent. */
  readonly ratePerS?: number;
  /** Only so much of the replay; all of it where it is absent. */
  readonly durationS?: number;
};

/** How many calls come in each second, a silence being one piece however long it is. */
const secondsOf = (momentsUs: readonly number[]): Piece[] => {
  const pieces: Piece[] = [];
  let endS = 0;
  for (let k = 0; k < momentsUs.length; ) {
    const second = Math.floor((momentsUs[k] as number) / 1e6);
    if (second > endS) pieces.push({ from: 0, to: 0, durationS: second - endS });
    const from = k;
    while (k < momentsUs.length && (momentsUs[k] as number) < (second + 1) * 1e6) k += 1;
    pieces.push({ from: k - from, to: k - from, durationS: 1 });
    endS = second + 1;
  }
  return pieces;
};

/**
 * The same calls one after the other as in the log, in time that runs as fast as is wished. `atMs`: milliseconds of any zero,
 * ascending.
 */
export const traceProfile = (atMs: readonly number[], { ratePerS, durationS }: TraceWish = {}): Profile => {
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
