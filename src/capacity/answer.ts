/** What a search found, in figures and in a sentence, and the limit that is met first. */
import { outcomeOf, type RefusalName } from "../contract/refusals.ts";
import type { ProbeResult } from "./probe.ts";

export type Answer = {
  /**
   * `found`: between `low` and `high`. `at-least`: met at `low`, and nothing higher could be tried. `never`: broken at the
   * lowest rate that was tried. `unknown`: the probes do not decide it.
   */
  kind: "found" | "at-least" | "never" | "unknown";
  ratePerS: number;
  /** 95 % interval, calls per second; the upper end is null where nothing bounds it. */
  low: number;
  high: number | null;
  /** Index, from 0, of the objective that breaks first; `null` if none did. */
  binding: number | null;
  reason: string;
  /** Says why the answer is not the generator's limit, or that it is. */
  generator: string;
};

const OWNERS = {
  b2b_overloaded: ["deployment", "the deployment's own slots"],
  org_overloaded: ["organization", "an organization's cap on calls in flight, not the deployment's slots"],
  rate_limited: ["key", "a key's rate limit, not the deployment's slots"],
  map_load_quota_exceeded: ["allowance", "an organization's allowance of map loads, which is no capacity"],
  map_load_hard_stop: ["allowance", "an organization's allowance of map loads, which is no capacity"],
  tile_access_restricted: ["allowance", "an organization's access to tiles, which is no capacity"],
  limiter_unavailable: ["limiter", "the limiter: it did not answer in time"],
  key_service_unavailable: ["key-service", "the key service: it did not answer in time"],
} as const satisfies Partial<Record<RefusalName, readonly string[]>>;

const ownerOf = (outcome: string) => {
  const found = Object.entries(OWNERS).find(([name]) => outcomeOf(name as RefusalName) === outcome);
  if (found !== undefined) return found[1];
  if (outcome.startsWith("edge")) return ["edge", "something before the API: its answer is not the API's"] as const;
  if (outcome === "indeterminate") return ["no-answer", "calls without an answer"] as const;
  return ["other", `answers ${outcome}`] as const;
};

/** Probes up to this many times the answer are "just above"; further up other limits join. */
const JUST_ABOVE = 1.7;

export type FirstLimit = ReturnType<typeof firstLimit>;

/** Reads the limit met first from the refusals just above the answer: each subcode has one owner. */
export const firstLimit = (results: readonly ProbeResult[], answerPerS: number, bindsOnTime: boolean) => {
  const above = results.filter(({ plan }) => plan.ratePerS > answerPerS);
  const near = above.filter(({ plan }) => plan.ratePerS <= answerPerS * JUST_ABOVE);
  const chosen = near.length > 0 ? near : above;
  const calls = chosen.reduce((sum, probe) => sum + probe.calls, 0);
  const sums = new Map<string, number>();
  let refused = 0;
  for (const [outcome, n] of chosen.flatMap(({ outcomes }) => Object.entries(outcomes))) {
    if (/^2\d\d$/.test(outcome)) continue;
    sums.set(outcome, (sums.get(outcome) ?? 0) + n);
    refused += n;
  }
  const [outcome, n] = [...sums].sort((a, b) => b[1] - a[1])[0] ?? [null, 0];
  if (bindsOnTime) {
    const beside = outcome === null ? "nothing was refused" : `${outcome} stayed within its objective`;
    return {
      owner: "time" as const,
      outcome,
      share: 0,
      sentence: `calls take too long before that is refused; ${beside}`,
    };
  }
  if (outcome === null)
    return { owner: "none" as const, outcome, share: 0, sentence: "nothing was refused above the answer" };
  const [owner, what] = ownerOf(outcome);
  const part = n === refused ? "" : `, ${((100 * n) / refused).toFixed(0)} % of what was not answered`;
  const sentence = `${what} (${outcome}, ${n} of ${calls} calls just above the answer${part})`;
  return { owner, outcome, share: n / Math.max(1, calls), sentence };
};
