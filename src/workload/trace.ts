/**
 * The calls of an access log as a load profile: when they came, and nothing else of it. What a call asks for and as whom is the
 * scenario's affair.
 */
import type { Profile } from "./load-profiles.ts";

type TraceWish = {
  /** Calls per second on average; the trace's own where it is absent. */
  readonly ratePerS?: number;
  /** Only so much of the replay; all of it where it is absent. */
  readonly durationS?: number;
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
  const momentsUs = atMs.map((ms) => Math.round(((ms - firstMs) * 1000) / factor)).filter((us) => us < most);
  const counts = Array.from({ length: Math.floor((momentsUs.at(-1) ?? -1) / 1e6) + 1 }, () => 0);
  for (const us of momentsUs) counts[Math.floor(us / 1e6)]! += 1;
  return {
    name: "replay",
    pieces: counts.map((count) => ({ from: count, to: count, durationS: 1 })),
    momentsUs,
  };
};
