/** What a rule needs (roles, permission, budget), and the verdict of a rule whose budget is short. */
import type { AdminRole, KeyRole, Target } from "../../target/target.ts";
import type { Open } from "../verdict.ts";

/** Given by an option, unless the target file's `permits` denies it. */
export type Permission = "writes" | "quota-burn" | "load";

export type Role = KeyRole | AdminRole;

/** Without these the rule is skipped, by the name of what is missing. */
export type Needs = {
  readonly roles?: readonly Role[];
  /** At least one of these. */
  readonly anyOf?: readonly Role[];
  readonly permission?: Permission;
  readonly tileUrl?: true;
  /** At least, on a conforming target. */
  readonly spends?: { readonly map_loads?: number; readonly analyses?: number };
};

/** A budget `is` spent in a run and `would be` in a plan. */
export type Tense = "is" | "would be";

export type Left = (what: keyof Spending) => number;

/**
 * Returns why a budget is short of the amount; `null` if it is not. `skipped`: the budget was too small from the start, or is not
 * stated. `inconclusive`: earlier rules spent it.
 */
export const shortageOf = (
  { budget = {} }: Target,
  left: Left,
  what: keyof Spending,
  amount: number,
  tense: Tense = "is",
): Open | null => {
  if (amount <= 0 || left(what) >= amount) return null;
  const stated = budget[what];
  const skip = (reason: string): Open => ({ verdict: "skipped", reason });
  if (stated === undefined)
    return skip(
      `the target file states no budget.${what}, and the usual one does not have the ${amount} that it needs`,
    );
  if (stated < amount)
    return skip(`budget.${what} of the target file (${stated}) does not allow the ${amount} that it needs`);
  const rest = left(what) > 0 ? ` but for ${left(what)}, and it needs ${amount}` : "";
  const spent = `budget.${what} of the target file (${stated}) ${tense} spent`;
  return { verdict: "inconclusive", reason: spent + rest, spent };
};

/** A call that would exceed it is not sent. */
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
