/** The plan of a run (`--dry-run`): rules to judge and to skip, calls, and spending. Sends nothing. */
import type { Target } from "../../target/target.ts";
import { withAnswers } from "../catalogue.ts";
import type { Open } from "../checks.ts";
import type { Cost, Rule } from "../rule.ts";
import { type Asked, createBudget, deniedBy, lackOf } from "./needs.ts";

/** `inconclusive`: earlier rules would use the budget up. */
type PlannedRule = Pick<Rule, "id" | "level" | "phase"> & {
  would_be: "judged" | "skipped" | "inconclusive";
  lacks: string | null;
  calls: number;
};

export type VerifyPlan = ReturnType<typeof planVerify>;

/** Calls before the first rule: one to find the API, and the sessions that rules share. */
const baseCalls = ({ credentials = {} }: Target): number =>
  1 +
  (credentials.publishable === undefined ? 0 : 6) +
  (credentials.publishable_other_org === undefined ? 0 : 2) +
  (credentials.publishable_no_ai === undefined ? 0 : 1);

export const planVerify = (target: Target, rules: readonly Rule[], options: Asked & { ratePerS: number }) => {
  const denied = deniedBy(target, options);
  const budget = createBudget(target, !denied.has("quota-burn"));
  const { spent, allowed, left } = budget;
  spent.requests = baseCalls(target);
  let paced = spent.requests;
  let keys = 0;
  const callsLack = (calls: number): Open | null => {
    const reason = `budget.requests of the target file (${allowed.requests}) would be spent`;
    return calls <= left("requests") ? null : { verdict: "inconclusive", reason };
  };
  const seen = new Set<string>();
  const planned: PlannedRule[] = [];
  for (const { rule, reported } of withAnswers(rules)) {
    const { id, level, phase } = rule;
    const cost: Cost = typeof rule.cost === "function" ? rule.cost(target) : rule.cost;
    const isKnown = cost.shared !== undefined && seen.has(cost.shared);
    const calls = isKnown ? 0 : (cost.calls ?? 0);
    const lack = lackOf(rule, { target, denied, budget }, "would be") ?? callsLack(calls);
    const lacks = lack?.reason ?? null;
    const would_be = lack?.verdict ?? "judged";
    if (reported) planned.push({ id, level, phase, would_be, lacks, calls: lacks === null ? calls : 0 });
    if (lacks !== null || isKnown) continue;
    if (cost.shared !== undefined) seen.add(cost.shared);
    spent.requests += calls;
    // A rule that can run with less budget spends what is left.
    for (const what of ["map_loads", "analyses"] as const)
      spent[what] += Math.min(cost[what] ?? 0, Math.max(0, left(what)));
    keys += cost.keys ?? 0;
    if (phase !== "load") paced += calls;
  }
  return {
    schema: "floodgate/plan@1" as const,
    target: { name: target.name ?? "", base_url: target.base_url },
    rate_per_s: options.ratePerS,
    rules: planned,
    /** The most that a run sends and spends on a conforming deployment below its limits. `keys` are deleted again. */
    would_send: { calls: spent.requests, map_loads: spent.map_loads, analyses: spent.analyses, keys },
    /** `null`: the target file states no limit. */
    budget: {
      requests: Number.isFinite(allowed.requests) ? allowed.requests : null,
      ...{ map_loads: allowed.map_loads, analyses: allowed.analyses },
    },
    /** Seconds that pacing alone takes, without bursts and the time of the answers. */
    takes_s_at_least: Math.ceil(paced / options.ratePerS),
  };
};
