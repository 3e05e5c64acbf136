/** What a search found, in figures and in a sentence. */

import { outcomeOf, type RefusalName } from "../contract/refusals.ts";
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

/** Which limit was met first, read from the refusals just above the answer: each subcode has one owner (section 7.2). */
type LimitOwner =
  | "deployment"
  | "organization"
  | "key"
  | "allowance"
  | "limiter"
  | "key-service"
  | "edge"
  | "no-answer"
  | "other"
  | "time"
  | "none";

export type FirstLimit = { owner: LimitOwner; outcome: string | null; share: number; sentence: string };

const OWNERS: readonly [RefusalName, LimitOwner, string][] = [
  ["b2b_overloaded", "deployment", "the deployment's own slots"],
  ["org_overloaded", "organization", "an organization's cap on calls in flight, not the deployment's slots"],
  ["rate_limited", "key", "a key's rate limit, not the deployment's slots"],
  ["map_load_quota_exceeded", "allowance", "an organization's allowance of map loads, which is no capacity"],
  ["map_load_hard_stop", "allowance", "an organization's allowance of map loads, which is no capacity"],
  ["tile_access_restricted", "allowance", "an organization's access to tiles, which is no capacity"],
  ["limiter_unavailable", "limiter", "the limiter: it did not answer in time"],
  ["key_service_unavailable", "key-service", "the key service: it did not answer in time"],
];

const ownerOf = (outcome: string): { owner: LimitOwner; what: string } => {
  const found = OWNERS.find(([name]) => outcomeOf(name) === outcome);
  if (found !== undefined) return { owner: found[1], what: found[2] };
  if (outcome.startsWith("edge"))
    return { owner: "edge", what: "something before the API: its answer is not the API's" };
  if (outcome === "indeterminate") return { owner: "no-answer", what: "calls without an answer" };
  return { owner: "other", what: `answers ${outcome}` };
};

/** Probes up to this many times the answer are "just above"; further up other limits join. */
const JUST_ABOVE = 1.7;

export const firstLimit = (results: readonly ProbeResult[], answerPerS: number, bindsOnTime: boolean): FirstLimit => {
  const above = results.filter(({ plan }) => plan.ratePerS > answerPerS && plan.ratePerS <= answerPerS * JUST_ABOVE);
  const chosen = above.length > 0 ? above : results.filter(({ plan }) => plan.ratePerS > answerPerS);
  const sums = new Map<string, number>();
  let calls = 0;
  for (const result of chosen) {
    calls += result.calls;
    for (const [outcome, n] of Object.entries(result.outcomes)) {
      if (!/^200$|^2\d\d$/.test(outcome)) sums.set(outcome, (sums.get(outcome) ?? 0) + n);
    }
  }
  const [outcome, n] = [...sums].sort((a, b) => b[1] - a[1])[0] ?? [null, 0];
  if (bindsOnTime) {
    const beside = outcome === null ? "nothing was refused" : `${outcome} stayed within its objective`;
    return { owner: "time", outcome, share: 0, sentence: `calls take too long before that is refused; ${beside}` };
  }
  if (outcome === null) return { owner: "none", outcome, share: 0, sentence: "nothing was refused above the answer" };
  const { owner, what } = ownerOf(outcome);
  const refused = [...sums.values()].reduce((sum, each) => sum + each, 0);
  const part = n === refused ? "" : `, ${((100 * n) / refused).toFixed(0)} % of what was not answered`;
  const sentence = `${what} (${outcome}, ${n} of ${calls} calls just above the answer${part})`;
  return { owner, outcome, share: n / Math.max(1, calls), sentence };
};
