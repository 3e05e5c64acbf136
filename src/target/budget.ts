/** What `verify` and `doctor` may spend. A call that would exceed it is not sent. */
import type { Target } from "./target.ts";

export class BudgetSpentError extends Error {
  override name = "BudgetSpentError";
}

export type Spending = { requests: number; map_loads: number; analyses: number };

export type Budget = {
  readonly spent: Spending;
  readonly allowed: Spending;
  take(what: keyof Spending, amount?: number): void;
  left(what: keyof Spending): number;
};

export const createBudget = ({ budget = {} }: Target, burn: boolean): Budget => {
  // Defaults: enough for the rules that need some, and for those that were asked for.
  const allowed: Spending = {
    requests: budget.requests ?? Number.POSITIVE_INFINITY,
    map_loads: budget.map_loads ?? (burn ? 1_000 : 20),
    analyses: budget.analyses ?? 3,
  };
  const spent: Spending = { requests: 0, map_loads: 0, analyses: 0 };
  return {
    spent,
    allowed,
    left: (what) => allowed[what] - spent[what],
    take: (what, amount = 1) => {
      if (spent[what] + amount > allowed[what]) {
        throw new BudgetSpentError(
          `budget.${what} of the target file (${allowed[what]}) does not allow ${amount} more`,
        );
      }
      spent[what] += amount;
    },
  };
};
