/**
 * What a budget does to a rule. One that the target file never allowed for it: the rule is skipped by that name, as its user
 * wants it. One that was enough and was used up by the run: the rule is open, and so is the run, for nobody asked for less.
 * Where the target file states none, the usual allowance is a courtesy, and running out of it skips.
 */
import type { Spending } from "../../target/budget.ts";
import type { Target } from "../../target/target.ts";
import { CannotJudge } from "../cannot-judge.ts";

export type Shortage = { readonly verdict: "inconclusive" | "skipped"; readonly reason: string };

export type Left = (what: keyof Spending) => number;

/** `null`: there is enough. */
export const shortageOf = (
  { budget = {} }: Target,
  left: Left,
  what: keyof Spending,
  amount: number,
): Shortage | null => {
  if (amount <= 0 || left(what) >= amount) return null;
  const stated = budget[what];
  if (stated === undefined) {
    const reason = `the target file states no budget.${what}, and the usual one does not have the ${amount} that it needs`;
    return { verdict: "skipped", reason };
  }
  if (stated < amount) {
    return {
      verdict: "skipped",
      reason: `budget.${what} of the target file (${stated}) does not allow the ${amount} that it needs`,
    };
  }
  const rest = left(what) > 0 ? ` but for ${left(what)}, and it needs ${amount}` : "";
  return { verdict: "inconclusive", reason: `budget.${what} of the target file (${stated}) is spent${rest}` };
};

/** Thrown where a rule can do nothing at all for want of budget. */
export class OutOfBudget extends CannotJudge {
  constructor({ verdict, reason }: Shortage) {
    super(verdict, reason);
    this.name = "OutOfBudget";
  }
}
