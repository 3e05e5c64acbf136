/** Which limit was met first, read from the refusals just above the answer: each subcode has one owner (section 7.2). */
import { outcomeOf, type RefusalName } from "../contract/refusals.ts";
import type { ProbeResult } from "./probe.ts";

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
