/**
 * The search for the highest rate at which every objective is met. It sends nothing itself: from what came of the probes so
 * far follows what to play next, or the answer. The rate is doubled until an objective is broken; from there on each probe is
 * played where the answer most likely is (the median of what all probes say together, which is bisection as long as nothing
 * else is known) until the interval is narrow enough or the time is used up. The safe end of the interval is confirmed, and
 * the generator is tried at twice the answer.
 */
import { type Answer, answerBracket, answerInterval, verdictAt } from "./answer.ts";
import { type Ceiling, ceilingOf, generatorDoubt } from "./generator-limit.ts";
import { offeredPerS, type ProbePlan, type ProbeResult, type ProbeVerdict, type Purpose } from "./probe.ts";
import { judgeTallies, PRIOR_DISPERSION } from "./sequential-test.ts";
import { dispersionsOf, lowestOf, quantileOf, type Threshold, thresholdOf } from "./threshold.ts";

export type SearchPolicy = {
  /** The first rate, calls per second. */
  readonly startPerS: number;
  /** `permits.load_max_rps`; infinite where nothing is said. */
  readonly maxPerS: number;
  /** The interval is narrow enough when each side is within this share of the answer. */
  readonly tolerance: number;
  /** Seconds that the search may play before it confirms. */
  readonly playS: number;
  readonly warmUpS: number;
  readonly bracketS: number;
  readonly narrowS: number;
  readonly confirmS: number;
};

export const POLICY: Omit<SearchPolicy, "maxPerS"> = {
  startPerS: 4,
  tolerance: 0.05,
  playS: 240,
  warmUpS: 1.5,
  bracketS: 3,
  narrowS: 15,
  confirmS: 20,
};
export const SHORT_POLICY: typeof POLICY = { ...POLICY, tolerance: 0.08, playS: 90, narrowS: 10, confirmS: 12 };

type Step = { probe: ProbePlan } | { answer: Answer };

const LOWEST_PER_S = 0.25;
/** A bracket's probe is lengthened until it expects this many calls. */
const BRACKET_CALLS = 12;
/** Played where the answer is expected and around it, so that the steepness is seen as well. */
const OFFSETS = [1, 1.12, 0.95, 1.06];
/** Once the sides of the interval are within this, a probe is played to its end. */
const NEAR = 0.15;
/** Nearer than this the two ends of a bisection are left to what all probes say together. */
const BISECTED = 1.12;
const BEYOND = 2;
/** Tries of a probe that the generator or its host spoilt. */
const TRIES = 3;
/** Spoilt probes in a row at which the search gives up. */
const SPOILT = 6;

type State = {
  limits: readonly number[];
  policy: SearchPolicy;
  results: readonly ProbeResult[];
  clean: readonly ProbeResult[];
  verdicts: readonly ProbeVerdict[];
  spentS: number;
  /** Nothing may be played above it. */
  topPerS: number;
  ceiling: Ceiling | null;
};

const stateOf = (results: readonly ProbeResult[], limits: readonly number[], policy: SearchPolicy): State => {
  const clean = results.filter((result) => generatorDoubt(result) === null);
  const verdicts = clean.map(({ tallies, plan }) => judgeTallies(tallies, limits, plan.dispersions));
  const spentS = results.reduce((sum, { plan, playedS }) => sum + plan.warmUpS + playedS, 0);
  const ceiling = ceilingOf(results);
  const topPerS = Math.min(policy.maxPerS, (ceiling?.ratePerS ?? Number.POSITIVE_INFINITY) * 0.97);
  return { limits, policy, results, clean, verdicts, spentS, topPerS, ceiling };
};

const probe = (state: State, purpose: Purpose, ratePerS: number, playS: number, mayStopEarly: boolean): Step => {
  const { policy, results, clean, limits } = state;
  const warmUpS = Math.max(policy.warmUpS, (3 * (results.at(-1)?.latencyMsP50 ?? 0)) / 1000);
  // So few calls do not say how they hang together.
  const dispersions = purpose === "bracket" ? limits.map(() => PRIOR_DISPERSION) : dispersionsOf(clean, limits.length);
  return { probe: { purpose, ratePerS, warmUpS, playS, mayStopEarly, dispersions } };
};

const bracketProbe = (state: State, ratePerS: number): Step =>
  probe(state, "bracket", ratePerS, Math.max(state.policy.bracketS, Math.min(30, BRACKET_CALLS / ratePerS)), true);

/** Until a rate that is not broken lies below one that is. */
const bracket = (state: State): Step => {
  const { clean, verdicts, policy, topPerS, ceiling, spentS } = state;
  const rates = clean.map(({ plan }) => plan.ratePerS);
  if (clean.length === 0) return bracketProbe(state, Math.min(policy.startPerS, topPerS));
  if (verdicts.includes("broken")) {
    // All are broken: downwards.
    const lower = Math.min(...rates) / 4;
    return lower < LOWEST_PER_S || spentS > policy.playS
      ? { answer: answerBracket(state) }
      : bracketProbe(state, lower);
  }
  const highest = Math.max(...rates);
  if (spentS > policy.playS) return { answer: answerBracket(state) };
  if (highest * 1.02 < topPerS && (ceiling === null || highest * 1.3 < topPerS)) {
    const next = ceiling === null ? 2 * highest : Math.sqrt(highest * topPerS);
    return bracketProbe(state, Math.min(next, topPerS));
  }
  // Nothing higher may or can be played: whether the objectives are met there has to be sure.
  const verdict = verdictAt(state, highest);
  return verdict === "met" ? { answer: answerBracket(state) } : probe(state, "confirm", highest, policy.confirmS, true);
};

/** Halves the way between the highest rate that is not broken and the lowest that is, `null` when they are near. */
const bisect = ({ limits, clean, verdicts }: State): number | null => {
  // Without a verdict, the share as it stands says on which side of the answer to look.
  const isBroken = clean.map(({ tallies }, i) =>
    verdicts[i] === "open"
      ? tallies.some(({ bad, n }, of) => bad > n * (limits[of] as number))
      : verdicts[i] === "broken",
  );
  const lowestBroken = Math.min(...clean.flatMap(({ plan }, i) => (isBroken[i] ? [plan.ratePerS] : [])));
  const below = clean.flatMap(({ plan }, i) => (!isBroken[i] && plan.ratePerS < lowestBroken ? [plan.ratePerS] : []));
  const highestMet = Math.max(...below);
  return below.length > 0 && lowestBroken / highestMet > BISECTED ? Math.sqrt(lowestBroken * highestMet) : null;
};

type Interval = { thresholds: Threshold[]; low: number; middle: number; high: number };

const intervalOf = ({ limits, clean, verdicts }: State): Interval => {
  const broken = Math.min(...clean.flatMap((result, i) => (verdicts[i] === "broken" ? [offeredPerS(result)] : [])));
  const range = { low: broken / 6, high: broken * 2 };
  const thresholds = limits.map((limit, of) => thresholdOf(clean, of, limit, range));
  const lowest = lowestOf(thresholds);
  const [low, middle, high] = [0.025, 0.5, 0.975].map((p) => quantileOf(lowest, p)) as [number, number, number];
  return { thresholds, low, middle, high };
};

const narrow = (state: State): Step => {
  const { policy, results, clean, verdicts, topPerS, spentS } = state;
  const rates = clean.map(({ plan }) => plan.ratePerS);
  const { thresholds, low, middle, high } = intervalOf(state);
  const sides = Math.log(high / low) / 2;
  const played = (purpose: Purpose): number => results.filter(({ plan }) => plan.purpose === purpose).length;
  const confirmations = clean.flatMap(({ plan }, i) => (plan.purpose === "confirm" ? [verdicts[i]] : []));
  const refuted = confirmations.filter((verdict) => verdict === "broken").length;
  // What a confirmation refuted may be looked for once more, for half as long again.
  const mayPlayS = policy.playS * (1 + refuted / 2);
  if (sides > Math.log1p(policy.tolerance) && spentS < mayPlayS) {
    const half = sides > NEAR ? bisect(state) : null;
    if (half !== null) return probe(state, "narrow", Math.min(half, topPerS), policy.narrowS, true);
    const factor = sides > NEAR ? 1 : (OFFSETS[played("narrow") % OFFSETS.length] as number);
    return probe(state, "narrow", Math.min(middle * factor, topPerS), policy.narrowS, sides > NEAR);
  }
  const isConfirmed = confirmations.length > refuted;
  if (!isConfirmed && refuted < 2 && played("confirm") < refuted + TRIES) {
    return probe(state, "confirm", Math.min(low, topPerS), policy.confirmS, false);
  }
  const beyond = Math.min(BEYOND * middle, topPerS);
  if (Math.max(...rates) < beyond * 0.95 && played("beyond") < TRIES) {
    return probe(state, "beyond", beyond, policy.bracketS, false);
  }
  return { answer: answerInterval(state, thresholds, { low, middle, high }, isConfirmed) };
};

const isBracketed = ({ verdicts }: State): boolean =>
  new Set(verdicts.map((verdict) => verdict === "broken")).size === 2;

/** What the probes say so far, where nothing more may be played. */
export const answerSoFar = (
  results: readonly ProbeResult[],
  limits: readonly number[],
  policy: SearchPolicy,
): Answer => {
  const state = stateOf(results, limits, policy);
  if (!isBracketed(state)) return answerBracket(state);
  const { thresholds, ...interval } = intervalOf(state);
  return answerInterval(state, thresholds, interval, false);
};

/** What to play next after these probes, in the order in which they were played, or what was found. */
export const nextStep = (results: readonly ProbeResult[], limits: readonly number[], policy: SearchPolicy): Step => {
  const state = stateOf(results, limits, policy);
  const last = results.at(-1);
  const spoilt = results.length - 1 - results.findLastIndex((result) => generatorDoubt(result) === null);
  if (spoilt >= SPOILT) return { answer: answerSoFar(results, limits, policy) };
  // What was spoilt is tried once more, unless that rate has turned out to be more than the generator can do.
  if (spoilt > 0 && last !== undefined && last.plan.ratePerS <= state.topPerS) return { probe: last.plan };
  return isBracketed(state) ? narrow(state) : bracket(state);
};
