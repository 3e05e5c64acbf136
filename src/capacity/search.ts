/**
 * The search for the highest rate at which every objective is met. It sends nothing itself: from what came of the probes so
 * far follows what to play next, or the answer. The rate is doubled until an objective is broken; from there on each probe is
 * played where the answer most likely is (the median of what all probes say together, which is bisection as long as nothing
 * else is known) until the interval is narrow enough or the time is used up. The safe end of the interval is confirmed, and
 * the generator is tried at twice the answer.
 */
import type { Answer } from "./answer.ts";
import { ceilingOf, generatorDoubt, generatorEvidence } from "./generator-limit.ts";
import {
  judgeTallies,
  offeredPerS,
  PRIOR_DISPERSION,
  type ProbePlan,
  type ProbeResult,
  type ProbeVerdict,
  type Purpose,
  perS,
} from "./probe.ts";
import { dispersionsOf, lowestOf, quantileOf, thresholdOf } from "./threshold.ts";

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
/** Factors of the expected answer at which probes are played, so that the steepness shows as well. */
const OFFSETS = [1, 1.12, 0.95, 1.06];
/** Once both sides of the interval are within this share of the answer, a probe is played to its end. */
const NEAR = 0.15;
/** Once the two ends are within this factor, bisection ends and the fit through all probes takes over. */
const BISECTED = 1.12;
const BEYOND = 2;
/** Tries of a probe that the generator or its host spoilt. */
const TRIES = 3;
/** Spoilt probes in a row at which the search gives up. */
const SPOILT = 6;

type State = ReturnType<typeof stateOf>;

const stateOf = (results: readonly ProbeResult[], limits: readonly number[], policy: SearchPolicy) => {
  const clean = results.filter((result) => generatorDoubt(result) === null);
  const verdicts = clean.map(({ tallies, plan }) => judgeTallies(tallies, limits, plan.dispersions));
  const spentS = results.reduce((sum, { plan, playedS }) => sum + plan.warmUpS + playedS, 0);
  const ceiling = ceilingOf(results);
  /** The highest rate that may be played. */
  const topPerS = Math.min(policy.maxPerS, (ceiling?.ratePerS ?? Number.POSITIVE_INFINITY) * 0.97);
  return { limits, policy, results, clean, verdicts, spentS, topPerS, ceiling };
};

/** The verdict of all probes at one rate together. */
const verdictAt = ({ clean, limits }: State, ratePerS: number): ProbeVerdict => {
  const there = clean.filter(({ plan }) => plan.ratePerS === ratePerS);
  const sum = (of: number, part: "bad" | "n"): number =>
    there.reduce((all, { tallies }) => all + (tallies[of]?.[part] ?? 0), 0);
  const sums = limits.map((_, of) => ({ bad: sum(of, "bad"), n: sum(of, "n") }));
  return judgeTallies(sums, limits, there.at(-1)?.plan.dispersions ?? []);
};

/** The answer while no met rate lies below a broken one. */
const answerBracket = (state: State): Answer => {
  const { clean, results, verdicts, ceiling, policy } = state;
  const rates = clean.map(({ plan }) => plan.ratePerS);
  if (clean.length > 0 && verdicts.every((verdict) => verdict === "broken")) {
    const high = Math.min(...rates);
    const reason = `the objectives are broken at ${perS(high)} already, the lowest rate that was tried`;
    const generator = "the probes left on schedule";
    return { kind: "never", ratePerS: 0, low: 0, high, binding: null, reason, generator };
  }
  const low = Math.max(0, ...rates.filter((rate) => verdictAt(state, rate) === "met"));
  const own = ceiling !== null && ceiling.ratePerS <= policy.maxPerS ? ceiling : null;
  const doubt = ceiling?.doubt ?? results.map(generatorDoubt).findLast((one) => one !== null) ?? null;
  const isPermitted = low < policy.maxPerS * 0.98;
  const why =
    own !== null
      ? `the generator was the limit: at ${perS(own.ratePerS)} ${own.doubt}`
      : !isPermitted
        ? `permits.load_max_rps of the target file allows no more than ${perS(policy.maxPerS)}`
        : doubt !== null
          ? `the generator or its host was disturbed: ${doubt}`
          : "the time was used up before an objective was broken";
  return {
    ...{ kind: low > 0 ? "at-least" : "unknown", ratePerS: low, low, high: null, binding: null },
    reason: `${low > 0 ? `at least ${perS(low)}` : "no rate was played long enough for a verdict"}; ${why}`,
    generator: own === null ? generatorEvidence(results, low) : `it is the generator's limit: ${own.doubt}`,
  };
};

const probe = (state: State, purpose: Purpose, ratePerS: number, playS: number, mayStopEarly: boolean): Step => {
  const { policy, results, clean, limits } = state;
  const warmUpS = Math.max(policy.warmUpS, (3 * (results.at(-1)?.latencyMsP50 ?? 0)) / 1000);
  // Too few calls to estimate their correlation.
  const dispersions = purpose === "bracket" ? limits.map(() => PRIOR_DISPERSION) : dispersionsOf(clean, limits.length);
  return { probe: { purpose, ratePerS, warmUpS, playS, mayStopEarly, dispersions } };
};

const bracketProbe = (state: State, ratePerS: number): Step =>
  probe(state, "bracket", ratePerS, Math.max(state.policy.bracketS, Math.min(30, BRACKET_CALLS / ratePerS)), true);

/** Doubles the rate until one is broken, or lowers it until one is met. */
const bracket = (state: State): Step => {
  const { clean, verdicts, policy, topPerS, ceiling, spentS } = state;
  const rates = clean.map(({ plan }) => plan.ratePerS);
  if (clean.length === 0) return bracketProbe(state, Math.min(policy.startPerS, topPerS));
  if (verdicts.includes("broken")) {
    // All rates are broken: try a lower one.
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
  // No higher rate may be played, so this one needs a definite verdict.
  const verdict = verdictAt(state, highest);
  return verdict === "met" ? { answer: answerBracket(state) } : probe(state, "confirm", highest, policy.confirmS, true);
};

/** The middle between the highest rate that is not broken and the lowest that is; `null` when they are near. */
const bisect = ({ limits, clean, verdicts }: State): number | null => {
  // Where there is no verdict, the measured share shows on which side the answer is.
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

/** An interval whose ends differ by more than this factor is not an answer. */
const WIDEST = 2;

const intervalOf = ({ limits, clean, verdicts, results }: State) => {
  const broken = Math.min(...clean.flatMap((result, i) => (verdicts[i] === "broken" ? [offeredPerS(result)] : [])));
  const range = { low: broken / 6, high: broken * 2 };
  const thresholds = limits.map((limit, of) => thresholdOf(clean, of, limit, range));
  const lowest = lowestOf(thresholds);
  const [low, middle, high] = [0.025, 0.5, 0.975].map((p) => quantileOf(lowest, p)) as [number, number, number];
  const answer = (isConfirmed: boolean): Answer => {
    const medians = thresholds.map((threshold) => quantileOf(threshold, 0.5));
    const isNarrow = high / low <= WIDEST;
    const safe = `${perS(low)}, the safe end of the interval`;
    const confirmed = isConfirmed ? `confirmed at ${safe}` : `${safe}, was not confirmed`;
    return {
      ...{ kind: isNarrow && isConfirmed ? "found" : "unknown", ratePerS: middle, low, high },
      reason: isNarrow
        ? confirmed
        : `between ${perS(low)} and ${perS(high)}: the time was used up before the interval was narrow`,
      binding: medians.indexOf(Math.min(...medians)),
      generator: generatorEvidence(results, middle),
    };
  };
  return { low, middle, high, answer };
};

const narrow = (state: State): Step => {
  const { policy, results, clean, verdicts, topPerS, spentS } = state;
  const rates = clean.map(({ plan }) => plan.ratePerS);
  const { low, middle, high, answer } = intervalOf(state);
  const sides = Math.log(high / low) / 2;
  const played = (purpose: Purpose): number => results.filter(({ plan }) => plan.purpose === purpose).length;
  const confirmations = clean.flatMap(({ plan }, i) => (plan.purpose === "confirm" ? [verdicts[i]] : []));
  const refuted = confirmations.filter((verdict) => verdict === "broken").length;
  // After a refuted confirmation the search may play half as long again.
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
  return { answer: answer(isConfirmed) };
};

/** Reports whether some probes are broken and others are not. */
const isBracketed = ({ verdicts }: State): boolean =>
  verdicts.includes("broken") && verdicts.some((verdict) => verdict !== "broken");

/** The answer from the probes so far, when nothing more may be played. */
export const answerSoFar = (
  results: readonly ProbeResult[],
  limits: readonly number[],
  policy: SearchPolicy,
): Answer => {
  const state = stateOf(results, limits, policy);
  return isBracketed(state) ? intervalOf(state).answer(false) : answerBracket(state);
};

/** Returns the next probe, given the results so far in the order of play, or the answer. */
export const nextStep = (results: readonly ProbeResult[], limits: readonly number[], policy: SearchPolicy): Step => {
  const state = stateOf(results, limits, policy);
  const last = results.at(-1);
  const spoilt = results.length - 1 - results.findLastIndex((result) => generatorDoubt(result) === null);
  if (spoilt >= SPOILT) return { answer: answerSoFar(results, limits, policy) };
  // A spoilt probe is repeated, unless the generator turned out to be unable to send its rate.
  if (spoilt > 0 && last !== undefined && last.plan.ratePerS <= state.topPerS) return { probe: last.plan };
  return isBracketed(state) ? narrow(state) : bracket(state);
};
