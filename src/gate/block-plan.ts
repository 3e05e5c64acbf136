/**
 * What a run of the gate plays: a few probes that find the base's capacity, unless the target file states it, then pairs
 * of short blocks, one on each side. A block has a time to settle, a part below the capacity for latency, and a part
 * above it for refusals and goodput. Both blocks of a pair have one seed: they send the same calls at the same moments.
 */
import { RATE_LIMITED } from "../contract/refusals.ts";
import { type CallLine, dueWithin } from "../history/line.ts";
import { level, type Profile } from "../workload/load-profiles.ts";
import { saltOf, uniform } from "../workload/random.ts";
import { type BlockPlan, isWhole } from "./block.ts";

export type Side = "base" | "head";
export const SIDES: readonly Side[] = ["base", "head"];

/** The fewest pairs whose figures decide: fewer are too few for some measurement (`pairsNeeded`), and show only broken invariants. */
export const PAIRS_DEFAULT = 12;
export const PAIRS_MOST = 30;

/** The numbers of pairs at which the gate looks; it goes on to the next number only while undecided. */
export const looksFrom = (first: number): number[] => [
  first,
  ...[PAIRS_DEFAULT, 20, PAIRS_MOST].filter((pairs) => pairs > first),
];

/** Which side goes first: drawn by the seed, and reversed in the pair after, so that slow drift favours neither. */
export const orderOf = (seed: number, pair: number): readonly [Side, Side] => {
  const isBaseFirst = uniform(seed, pair >> 1, saltOf("who is first")) < 0.5 === (pair % 2 === 0);
  return isBaseFirst ? ["base", "head"] : ["head", "base"];
};

export type BlockLoad = Record<"lowPerS" | "overloadPerS" | "settleS" | "lowS" | "overloadS", number>;

const LOW = 0.7;
const OVERLOAD = 2;
const SETTLE_S = 0.7;
/** The calls wanted in each part, within these bounds of its length. */
const CALLS = 300;
const LOW_S = { least: 4, most: 8 };
const OVERLOAD_S = { least: 2.5, most: 5 };

const lengthS = (perS: number, { least, most }: { least: number; most: number }): number =>
  Math.min(most, Math.max(least, CALLS / perS));

/** `capacityPerS`: the base's capacity. `mostPerS`: the highest rate that the targets permit. */
export const loadFor = (capacityPerS: number, mostPerS = Number.POSITIVE_INFINITY): BlockLoad => {
  const lowPerS = Math.min(LOW * capacityPerS, mostPerS);
  const overloadPerS = Math.min(OVERLOAD * capacityPerS, mostPerS);
  const lengths = { lowS: lengthS(lowPerS, LOW_S), overloadS: lengthS(overloadPerS, OVERLOAD_S) };
  return { lowPerS, overloadPerS, settleS: SETTLE_S, ...lengths };
};

export const profileOfBlock = ({ lowPerS, overloadPerS, settleS, lowS, overloadS }: BlockLoad): Profile => ({
  name: "gate-block",
  pieces: [level(lowPerS, settleS + lowS), level(overloadPerS, overloadS)],
});

export const callsOfBlock = ({ lowPerS, overloadPerS, settleS, lowS, overloadS }: BlockLoad): number =>
  Math.ceil(lowPerS * (settleS + lowS) + overloadPerS * overloadS);

export const partsOfBlock = (load: BlockLoad, startUs: number): Pick<BlockPlan, "steady" | "past"> => {
  const us = (afterS: number): number => Math.round(startUs + afterS * 1e6);
  const { settleS, lowS, overloadS } = load;
  return {
    steady: { fromUs: us(settleS), toUs: us(settleS + lowS) },
    past: { fromUs: us(settleS + lowS), toUs: us(settleS + lowS + overloadS) },
  };
};

/** Time that a block takes besides its load: a driver's process, sessions, calls that end, the drain. */
const AROUND_S = 2;

export const pairTakesS = ({ settleS, lowS, overloadS }: BlockLoad) => 2 * (settleS + lowS + overloadS + AROUND_S);

export const PROBE_S = 2.5;
/** The first part of a probe fills empty slots and spends the tokens that a rate limit had saved up. */
const FILLING_S = 1;
const FIRST_PER_S = 20;
/** Each probe offers this many times the rate of the one before. */
const FACTOR = 2;
const PROBES_MOST = 9;
/** A deployment that serves less than this share of the offered rate has met its limit. */
export const ALL_SERVED = 0.85;

export type Probe = ReturnType<typeof probeOf>;

/** Measures a probe by the calls that were due in its second part. */
export const probeOf = (ratePerS: number, lines: readonly CallLine[], startUs: number) => {
  const fromUs = startUs + FILLING_S * 1e6;
  const toUs = startUs + PROBE_S * 1e6;
  const part = dueWithin(lines, { fromUs, toUs });
  const refused = part.filter((line) => !isWhole(line));
  const byRate = refused.filter(({ outcome }) => outcome === RATE_LIMITED);
  return {
    ratePerS,
    servedPerS: (part.length - refused.length) / (PROBE_S - FILLING_S),
    /** Most refusals were for a key's rate; such a key has saved tokens for a while. */
    isByRate: byRate.length * 2 > refused.length,
  };
};

const isLimit = ({ ratePerS, servedPerS }: Probe): boolean => servedPerS < ALL_SERVED * ratePerS;

/** The rate to probe next, or `null` when enough is known or `mostPerS` was reached. */
export const nextProbe = (probes: readonly Probe[], mostPerS: number): number | null => {
  const last = probes.at(-1);
  if (last === undefined) return Math.min(FIRST_PER_S, mostPerS);
  // A moment in which the machine is busy looks like a limit, so a limit has to show twice.
  if (isLimit(last) && last.servedPerS > 0 && probes.at(-2)?.ratePerS !== last.ratePerS) return last.ratePerS;
  if (isLimit(last) || probes.length >= PROBES_MOST || last.ratePerS >= mostPerS) return null;
  return Math.min(mostPerS, last.ratePerS * FACTOR);
};

/**
 * The rate served once less is served than offered, whatever limit was met; `isReached` is false when none was. Above its
 * limit a deployment may serve less than below it, so the best probe counts, unless a key's saved tokens served it.
 */
export const capacityOf = (probes: readonly Probe[]): { perS: number; isReached: boolean } => {
  const last = probes.at(-1);
  const isReached = last !== undefined && isLimit(last);
  const best = Math.max(0, ...probes.map(({ servedPerS }) => servedPerS));
  return { perS: isReached && last.isByRate ? last.servedPerS : best, isReached };
};
