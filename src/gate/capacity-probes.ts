/**
 * Finds the base's capacity in a few probes, if the target file does not state it. Each probe offers twice as much as
 * the one before, until less is served than offered. The served rate is then the capacity, whatever limit was met.
 */
import type { CallLine } from "../history/line.ts";
import { isWhole } from "./block.ts";

export type Probe = ReturnType<typeof probeOf>;

export const PROBE_S = 2.5;
/** The first part of a probe fills empty slots and spends the tokens that a rate limit had saved up. */
const FILLING_S = 1;
const FIRST_PER_S = 20;
const FACTOR = 2;
const PROBES_MOST = 8;
/** A probe that serves less than this share of the offered rate has met the limit. */
const ALL_SERVED = 0.85;

/** Measures a probe by the calls that were due in its second part. */
export const probeOf = (ratePerS: number, lines: readonly CallLine[], startUs: number) => {
  const fromUs = startUs + FILLING_S * 1e6;
  const toUs = startUs + PROBE_S * 1e6;
  const part = lines.filter(({ intended_us: at }) => at >= fromUs && at < toUs);
  const refused = part.filter((line) => !isWhole(line));
  const byRate = refused.filter(({ outcome }) => outcome === "429 rate_limited");
  const servedPerS = part.filter(isWhole).length / (PROBE_S - FILLING_S);
  /** Most refusals were for a key's rate; such a key has saved tokens for a while. */
  const isByRate = byRate.length * 2 > refused.length;
  return { ratePerS, servedPerS, isByRate };
};

const isLimit = ({ ratePerS, servedPerS }: Probe): boolean => servedPerS < ALL_SERVED * ratePerS;

/** The rate to probe next, or `null` when enough is known or `mostPerS` was reached. */
export const nextProbe = (probes: readonly Probe[], mostPerS: number): number | null => {
  const last = probes.at(-1);
  if (last === undefined) return Math.min(FIRST_PER_S, mostPerS);
  if (isLimit(last) || probes.length >= PROBES_MOST || last.ratePerS >= mostPerS) return null;
  return Math.min(mostPerS, last.ratePerS * FACTOR);
};

/**
 * Calls a second; `isReached` is false when no limit was met. A deployment may serve less above its limit than below it, so the
 * best probe counts; but where a key's rate is the limit, earlier probes were served from saved tokens and do not count.
 */
export const capacityOf = (probes: readonly Probe[]): { perS: number; isReached: boolean } => {
  const limit = probes.find(isLimit);
  const best = Math.max(0, ...probes.map(({ servedPerS }) => servedPerS));
  return { perS: limit?.isByRate === true ? limit.servedPerS : best, isReached: limit !== undefined };
};
