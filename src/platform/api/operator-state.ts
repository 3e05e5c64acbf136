/** An operator's counts of calls (`GET /counts`) and orders for next calls (`fail_next` of `PATCH /deployment`). */
import type { FailPlan } from "../control-plane.ts";

export const orderedFailures = () => {
  let plans: FailPlan[] = [];
  return {
    order: (plan: FailPlan): void => {
      if (plan.count > 0) plans.push({ ...plan });
    },
    /** Returns the failure ordered for this admitted call, if any, and uses it up. */
    take: (route: string): FailPlan | null => {
      const plan = plans.find((one) => one.route === route);
      if (plan === undefined) return null;
      plan.count -= 1;
      plans = plans.filter(({ count }) => count > 0);
      return plan;
    },
    left: (): number => plans.reduce((sum, { count }) => sum + count, 0),
  };
};

/** The most runs remembered; the one that has been silent the longest is forgotten first. */
const RUNS_MAX = 1_000;

/**
 * Counts calls by the run in the client's `X-Request-Id`: everything before its last `.`, `:` or `/`. `?run=r1` adds up
 * `r1` and the runs that begin with `r1` and one of the three. A call without a run counts only in the sum of all.
 */
export const countedOutcomes = () => {
  /** Numbers of calls; a key is an outcome, a line break and an organization. */
  const all = new Map<string, number>();
  /** In the order of their last calls. */
  const runs = new Map<string, typeof all>();
  let last: { run: string; row: typeof all } | undefined;
  const rowOf = (run: string): typeof all => {
    if (last?.run === run) return last.row;
    last = { run, row: runs.get(run) ?? new Map() };
    runs.delete(run);
    runs.set(run, last.row);
    if (runs.size > RUNS_MAX) runs.delete(runs.keys().next().value as string);
    return last.row;
  };
  return {
    /** `requestId`: the client's, `null` if it sent none. `org`: `"-"` for a call refused before it was known. */
    count: (requestId: string | null, outcome: string, org: string): void => {
      const name = `${outcome}\n${org}`;
      const run = /^(.+)[.:/]/.exec(requestId ?? "")?.[1];
      for (const row of run === undefined ? [all] : [all, rowOf(run)]) row.set(name, (row.get(name) ?? 0) + 1);
    },
    /** The counts of a run; `null`: of all calls since the start. */
    of: (run: string | null): Record<string, Record<string, number>> => {
      const sum: Record<string, Record<string, number>> = {};
      const belongs = (id: string): boolean => id === run || [".", ":", "/"].some((end) => id.startsWith(run + end));
      const rows = run ? [...runs].filter(([id]) => belongs(id)).map(([, row]) => row) : [all];
      for (const [name, n] of rows.flatMap((row) => [...row])) {
        const [outcome, org] = [name.slice(0, name.indexOf("\n")), name.slice(name.indexOf("\n") + 1)];
        sum[outcome] ??= {};
        const byOrg = sum[outcome];
        byOrg[org] = (byOrg[org] ?? 0) + n;
      }
      return sum;
    },
  };
};
