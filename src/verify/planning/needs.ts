/** What a rule may need: roles of the target file, permission, budget; and what a budget that does not have it does to a rule. */
import type { Spending } from "../../target/budget.ts";
import type { AdminRole, KeyRole, Target } from "../../target/target.ts";
import type { Open } from "../verdict.ts";

/** What the user must have allowed with an option, and the target file must not forbid in `permits`. */
export type Permission = "writes" | "quota-burn" | "load";

export type Role = KeyRole | AdminRole;

/** What a rule cannot do without; it is skipped by the name of what is missing. */
export type Needs = {
  readonly roles?: readonly Role[];
  /** One of these is enough. */
  readonly anyOf?: readonly Role[];
  readonly permission?: Permission;
  readonly tileUrl?: true;
  /** What the rule spends at least on a conforming target. */
  readonly spends?: { readonly map_loads?: number; readonly analyses?: number };
};

/** A budget `is` spent in a run and `would be` in a plan. */
export type Tense = "is" | "would be";

export type Left = (what: keyof Spending) => number;

/**
 * Why a budget does not have the amount; `null` where it has. A budget that the target file never allowed, or that it does not
 * state, skips. One that was enough and that the run has used up leaves the rule open.
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
