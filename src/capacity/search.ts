/**
 * Searches for the highest rate at which every objective is met: from the results of the probes so far it returns the
 * next probe or the answer. The rate is doubled until an objective is broken; then each probe is played at the likeliest
 * answer (the median of the posterior; by bisection while little is known) until the interval is narrow enough or the
 * time is used up. The safe end of the interval is confirmed, and the generator is tried at twice the answer.
 */
import type { OpenCode } from "../history/reason-codes.ts";
import type { Answer } from "./capacity-claims.ts";
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

export const POLICY = {
  startPerS: 4,
  /** The interval is narrow enough when each side is within this share of the answer. */
  tolerance: 0.05,
  /** Seconds that the search may play before it confirms. */
  playS: 240,
  ...{ warmUpS: 1.5, bracketS: 3, narrowS: 15, confirmS: 20 },
};
export const SHORT_POLICY: typeof POLICY = { ...POLICY, tolerance: 0.08, playS: 90, narrowS: 10, confirmS: 12 };
/** `maxPerS`: the average rate at which arrivals stay within `permits.load_max_rps`; infinite if not stated. */
export type SearchPolicy = Readonly<typeof POLICY & { maxPerS: number }>;

type Step = { probe: ProbePlan } | { answer: Answer };

const LOWEST_PER_S = 0.25;
/** A bracket's probe is lengthened until it expects this many calls. */
const BRACKET_CALLS = 12;
/** Factors of the expected answer at which probes are played, so that the slope is measured too. */
const OFFSETS = [1, 1.12, 0.95, 1.06];
/** Once both sides of the interval are within this share of the answer, a probe is played to its end. */
const NEAR = 0.15;
/** Once the two ends are within this factor, bisection ends and the fit through all probes takes over. */
const BISECTED = 1.12;
const BEYOND = 2;
/** The most tries of a confirming probe, or of one beyond the answer. */
const TRIES = 3;
/** Spoilt probes in a row at which the search gives up. */
const SPOILT = 6;

/** A probe that the generator did not spoil, with its own verdict. */
type Judged = ProbeResult & { readonly ratePerS: number; readonly verdict: ProbeVerdict };

type State = ReturnType<typeof stateOf>;

const stateOf = (results: readonly ProbeResult[], limits: readonly number[], policy: SearchPolicy) => {
  const clean = results
    .filter((result) => generatorDoubt(result) === null)
    .map((result): Judged => {
      const { tallies, plan } = result;
      return { ...result, ratePerS: plan.ratePerS, verdict: judgeTallies(tallies, limits, plan.dispersions) };
    });
  const ceiling = ceilingOf(results);
  return {
    ...{ limits, policy, results, clean, ceiling },
    broken: clean.filter(({ verdict }) => verdict === "broken"),
    spentS: results.reduce((sum, { plan, playedS }) => sum + plan.warmUpS + playedS, 0),
    topPerS: Math.min(policy.maxPerS, (ceiling?.ratePerS ?? Number.POSITIVE_INFINITY) * 0.97),
  };
};

const ratesOf = (probes: readonly Judged[]): number[] => probes.map(({ ratePerS }) => ratePerS);

const verdictAt = ({ clean, limits }: State, ratePerS: number): ProbeVerdict => {
  const there = clean.filter((one) => one.ratePerS === ratePerS);
  const sum = (of: number, part: "bad" | "n"): number =>
    there.reduce((all, { tallies }) => all + (tallies[of]?.[part] ?? 0), 0);
  const sums = limits.map((_, of) => ({ bad: sum(of, "bad"), n: sum(of, "n") }));
  return judgeTallies(sums, limits, there.at(-1)?.plan.dispersions ?? []);
};

/** The answer while no met rate lies below a broken one. */
const answerBracket = (state: State): Answer => {
  const { clean, broken, results, ceiling, policy } = state;
  if (clean.length > 0 && broken.length === clean.length) {
    const high = Math.min(...ratesOf(clean));
    const reason = `the objectives are broken at ${perS(high)} already, the lowest rate that was tried`;
    const generator = "the probes left on schedule";
    return { kind: "never", ratePerS: 0, low: 0, high, binding: null, reason, generator };
  }
  const low = Math.max(0, ...ratesOf(clean).filter((rate) => verdictAt(state, rate) === "met"));
  const own = ceiling !== null && ceiling.ratePerS <= policy.maxPerS ? ceiling : null;
  const doubt = ceiling?.doubt ?? results.map(generatorDoubt).findLast((one) => one !== null) ?? null;
  const why = (): [OpenCode, string] => {
    if (own !== null)
      return ["generator-was-the-limit", `the generator was the limit: at ${perS(own.ratePerS)} ${own.doubt}`];
    if (low >= policy.maxPerS * 0.98)
      return [
        "not-permitted",
        "permits.load_max_rps of the target file leaves no room for more, bursts included; raise it to look further",
      ];
    if (doubt !== null) return ["machine-disturbed", `the generator or its host was disturbed: ${doubt}`];
    return ["too-few-calls", "the time was used up before an objective was broken"];
  };
  const [open_by, sentence] = why();
  return {
    ...{ kind: low > 0 ? "at-least" : "unknown", ratePerS: low, low, high: null, binding: null },
    reason: `${low > 0 ? `at least ${perS(low)}` : "no rate was played long enough for a verdict"}; ${sentence}`,
    open_by,
    generator: own === null ? generatorEvidence(results, low) : `it is the generator's limit: ${own.doubt}`,
  };
};

const probe = (state: State, purpose: Purpose, ratePerS: number, playS: number, mayStopEarly: boolean): Step => {
  const { policy, results, clean, limits } = state;
  const warmUpS = Math.max(policy.warmUpS, (3 * (results.at(-1)?.latencyMsP50 ?? 0)) / 1000);
  // A bracket's probe has too few calls to estimate their correlation.
  const dispersions = purpose === "bracket" ? limits.map(() => PRIOR_DISPERSION) : dispersionsOf(clean, limits.length);
  return { probe: { purpose, ratePerS, warmUpS, playS, mayStopEarly, dispersions } };
};

const bracketProbe = (state: State, ratePerS: number): Step =>
  probe(state, "bracket", ratePerS, Math.max(state.policy.bracketS, Math.min(30, BRACKET_CALLS / ratePerS)), true);

/** Doubles the rate until one is broken, or lowers it until one is met. */
const bracket = (state: State): Step => {
  const { clean, broken, policy, topPerS, ceiling, spentS } = state;
  if (clean.length === 0) return bracketProbe(state, Math.min(policy.startPerS, topPerS));
  // Here all probes are broken or none is.
  const lower = Math.min(...ratesOf(clean)) / 4;
  if (spentS > policy.playS || (broken.length > 0 && lower < LOWEST_PER_S)) return { answer: answerBracket(state) };
  if (broken.length > 0) return bracketProbe(state, lower);
  const highest = Math.max(...ratesOf(clean));
  if (highest * 1.02 < topPerS && (ceiling === null || highest * 1.3 < topPerS)) {
    const next = ceiling === null ? 2 * highest : Math.sqrt(highest * topPerS);
    return bracketProbe(state, Math.min(next, topPerS));
  }
  // No higher rate may be played, so this one needs a definite verdict.
  const isMet = verdictAt(state, highest) === "met";
  return isMet ? { answer: answerBracket(state) } : probe(state, "confirm", highest, policy.confirmS, true);
};

const bisect = ({ limits, clean }: State): number | null => {
  // Without a verdict the measured share shows on which side the answer is.
  const isBroken = ({ verdict, tallies }: Judged): boolean =>
    verdict === "open" ? tallies.some(({ bad, n }, of) => bad > n * (limits[of] as number)) : verdict === "broken";
  const lowestBroken = Math.min(...ratesOf(clean.filter(isBroken)));
  const below = ratesOf(clean.filter((one) => !isBroken(one))).filter((rate) => rate < lowestBroken);
  const highestMet = Math.max(...below);
  return below.length > 0 && lowestBroken / highestMet > BISECTED ? Math.sqrt(lowestBroken * highestMet) : null;
};

/** An interval whose ends differ by more than this factor is not an answer. */
const WIDEST = 2;

const intervalOf = ({ limits, clean, broken, results }: State) => {
  const lowestBroken = Math.min(...broken.map(offeredPerS));
  const range = { low: lowestBroken / 6, high: lowestBroken * 2 };
  const thresholds = limits.map((limit, of) => thresholdOf(clean, of, limit, range));
  const lowest = lowestOf(thresholds);
  const [low, middle, high] = [0.025, 0.5, 0.975].map((p) => quantileOf(lowest, p)) as [number, number, number];
  const answer = (isConfirmed: boolean): Answer => {
    const medians = thresholds.map((threshold) => quantileOf(threshold, 0.5));
    const isNarrow = high / low <= WIDEST;
    const safe = `${perS(low)}, the safe end of the interval`;
    const between = `between ${perS(low)} and ${perS(high)}`;
    const confirmed = isConfirmed ? `confirmed at ${safe}` : `${between}: its safe end was not confirmed`;
    return {
      ...{ kind: isNarrow && isConfirmed ? "found" : "unknown", ratePerS: middle, low, high },
      reason: isNarrow ? confirmed : `${between}, too wide an interval for an answer`,
      binding: medians.indexOf(Math.min(...medians)),
      generator: generatorEvidence(results, middle),
    };
  };
  return { low, middle, high, answer };
};

const narrow = (state: State): Step => {
  const { policy, results, clean, broken, topPerS, spentS } = state;
  const { low, middle, high, answer } = intervalOf(state);
  const sides = Math.log(high / low) / 2;
  const count = (of: Purpose, probes: readonly ProbeResult[] = results): number =>
    probes.filter(({ plan }) => plan.purpose === of).length;
  const refuted = count("confirm", broken);
  // After a refuted confirmation the search may play half as long again.
  const mayPlayS = policy.playS * (1 + refuted / 2);
  if (sides > Math.log1p(policy.tolerance) && spentS < mayPlayS) {
    const half = sides > NEAR ? bisect(state) : null;
    if (half !== null) return probe(state, "narrow", Math.min(half, topPerS), policy.narrowS, true);
    const factor = sides > NEAR ? 1 : (OFFSETS[count("narrow") % OFFSETS.length] as number);
    return probe(state, "narrow", Math.min(middle * factor, topPerS), policy.narrowS, sides > NEAR);
  }
  const isConfirmed = count("confirm", clean) > refuted;
  if (!isConfirmed && refuted < 2 && count("confirm") < refuted + TRIES) {
    return probe(state, "confirm", Math.min(low, topPerS), policy.confirmS, false);
  }
  const beyond = Math.min(BEYOND * middle, topPerS);
  if (Math.max(...ratesOf(clean)) < beyond * 0.95 && count("beyond") < TRIES) {
    return probe(state, "beyond", beyond, policy.bracketS, false);
  }
  return { answer: answer(isConfirmed) };
};

const isBracketed = ({ broken, clean }: State): boolean => broken.length > 0 && broken.length < clean.length;

const soFar = (state: State): Answer => (isBracketed(state) ? intervalOf(state).answer(false) : answerBracket(state));

export const answerSoFar = (...played: Parameters<typeof stateOf>): Answer => soFar(stateOf(...played));

/** Returns the next probe, given the results so far in the order of play, or the answer. */
export const nextStep = (results: readonly ProbeResult[], limits: readonly number[], policy: SearchPolicy): Step => {
  const state = stateOf(results, limits, policy);
  const last = results.at(-1);
  const spoilt = results.length - 1 - results.findLastIndex((result) => generatorDoubt(result) === null);
  if (spoilt >= SPOILT && last !== undefined) {
    const answer = soFar(state);
    const doubt = `the generator or its host was disturbed: ${generatorDoubt(last)}`;
    return { answer: isBracketed(state) ? { ...answer, reason: `${answer.reason}; ${doubt}` } : answer };
  }
  // A spoilt probe is repeated, unless the generator turned out to be unable to send its rate.
  if (spoilt > 0 && last !== undefined && last.plan.ratePerS <= state.topPerS) return { probe: last.plan };
  return isBracketed(state) ? narrow(state) : bracket(state);
};
