/** The arrival times of an access log as a load profile. The scenario decides what each call sends, and as whom. */
import type { Piece, Profile } from "./load-profiles.ts";

type TraceWish = {
  /** Calls per second on average; absent: the trace's own. */
  readonly ratePerS?: number;
  /** The length of the replay; absent: all. */
  readonly durationS?: number;
};

/** Calls of each second; a silence is one piece of any length. */
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

/** The calls in the order of the log, scaled to the wished rate. `atMs`: milliseconds from any zero, ascending. */
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
