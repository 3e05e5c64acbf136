/** What a search found, in figures and in a sentence. */
import { type Ceiling, generatorDoubt, generatorEvidence } from "./generator-limit.ts";
import type { ProbeResult, ProbeVerdict } from "./probe.ts";
import { judgeTallies } from "./sequential-test.ts";
import { type Posterior, quantileOf } from "./threshold.ts";

export type Answer = {
  /**
   * `found`: between `low` and `high`. `at-least`: met at `low`, and nothing higher could be tried. `never`: broken at the
   * lowest rate that was tried. `unknown`: the probes do not decide it.
   */
  kind: "found" | "at-least" | "never" | "unknown";
  /** Calls per second. */
  ratePerS: number;
  /** 95 % interval, calls per second; the upper end is null where nothing bounds it. */
  low: number;
  high: number | null;
  /** Number of the objective that breaks first; `null` when none did. */
  binding: number | null;
  reason: string;
  /** Why it is not the generator's limit, or that it is. */
  generator: string;
};

/** Wider than this, from end to end, an interval is no answer. */
const WIDEST = 2;

type Known = {
  limits: readonly number[];
  clean: readonly ProbeResult[];
  results: readonly ProbeResult[];
  verdicts: readonly ProbeVerdict[];
  ceiling: Ceiling | null;
  policy: { readonly maxPerS: number };
};

export const perS = (rate: number): string =>
  `${rate < 10 ? rate.toFixed(2) : rate < 100 ? rate.toFixed(1) : rate.toFixed(0)}/s`;

/** Of all probes at one rate together. */
export const verdictAt = ({ clean, limits }: Pick<Known, "clean" | "limits">, ratePerS: number): ProbeVerdict => {
  const there = clean.filter(({ plan }) => plan.ratePerS === ratePerS);
  const sums = limits.map((_, of) =>
    there.reduce((sum, { tallies }) => ({ bad: sum.bad + (tallies[of]?.bad ?? 0), n: sum.n + (tallies[of]?.n ?? 0) }), {
      bad: 0,
      n: 0,
    }),
  );
  return judgeTallies(sums, limits, there.at(-1)?.plan.dispersions ?? []);
};

/** The answer where no rate that is met lies below one that is broken. */
export const answerBracket = (known: Known): Answer => {
  const { clean, results, verdicts, ceiling, policy } = known;
  const ratesOf = (wanted: ProbeVerdict): number[] =>
    clean.flatMap(({ plan }, i) => (verdicts[i] === wanted ? [plan.ratePerS] : []));
  const met = clean.map(({ plan }) => plan.ratePerS).filter((rate) => verdictAt(known, rate) === "met");
  const broken = ratesOf("broken");
  const spoilt = results.findLast((result) => generatorDoubt(result) !== null);
  const doubt = ceiling?.doubt ?? (spoilt === undefined ? null : generatorDoubt(spoilt));
  if (met.length === 0 && broken.length > 0 && broken.length === clean.length) {
    const at = Math.min(...broken);
    const reason = `the objectives are broken at ${perS(at)} already, the lowest rate that was tried`;
    return {
      kind: "never",
      ratePerS: 0,
      low: 0,
      high: at,
      binding: null,
      reason,
      generator: "the probes left on schedule",
    };
  }
  const low = Math.max(0, ...met);
  const isGenerator = ceiling !== null && ceiling.ratePerS <= policy.maxPerS;
  const why = isGenerator
    ? `the generator was the limit: at ${perS(ceiling.ratePerS)} ${ceiling.doubt}`
    : low >= policy.maxPerS * 0.98
      ? `permits.load_max_rps of the target file allows no more than ${perS(policy.maxPerS)}`
      : doubt !== null
        ? `the generator or its host was disturbed: ${doubt}`
        : "the time was used up before an objective was broken";
  const kind = low > 0 ? "at-least" : "unknown";
  const reason = low > 0 ? `at least ${perS(low)}; ${why}` : `no rate was played long enough for a verdict; ${why}`;
  const generator = isGenerator ? `it is the generator's limit: ${ceiling.doubt}` : generatorEvidence(results, low);
  return { kind, ratePerS: low, low, high: null, binding: null, reason, generator };
};

export const answerInterval = (
  { results }: Known,
  thresholds: readonly Posterior[],
  { low, middle, high }: { low: number; middle: number; high: number },
  isConfirmed: boolean,
): Answer => {
  const medians = thresholds.map((threshold) => quantileOf(threshold, 0.5));
  const isNarrow = high / low <= WIDEST;
  const reason = !isNarrow
    ? `between ${perS(low)} and ${perS(high)}: the time was used up before the interval was narrow`
    : isConfirmed
      ? `confirmed at ${perS(low)}, the safe end of the interval`
      : `${perS(low)}, the safe end of the interval, was not confirmed`;
  return {
    kind: isNarrow && isConfirmed ? "found" : "unknown",
    ratePerS: middle,
    low,
    high,
    reason,
    binding: medians.indexOf(Math.min(...medians)),
    generator: generatorEvidence(results, middle),
  };
};
