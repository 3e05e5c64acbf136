/** What the rules about load have in common: what a limit is called, and that the user allowed a burst. */

import type { Checks } from "../../checks.ts";
import { DOWN } from "../../load-burst.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, told } from "../../sending/answer.ts";

const LIMITS =
  /^(2\d\d( error event)?|429 (rate_limited|b2b_overloaded|org_overloaded|limiter_unavailable)|indeterminate)$/;
export const needs = { permission: "load", anyOf: ["server", "publishable"] } as const;

/**
 * What is neither served nor told in a limit's words. The key service (item 216) or a balancer's way may be down at any moment:
 * whether that stands for a limit is another question.
 */
const isMisfit = ({ outcome }: Answer): boolean => !LIMITS.test(outcome) && !DOWN.test(outcome);

export const requireLimits = (checks: Checks, answers: readonly Answer[]): void => {
  for (const answer of answers) {
    checks.require(!isMisfit(answer), answer, "2xx or a limit's own subcode", told(answer));
  }
};

export const CALM_MS = 1_500;

type LoadRule = Omit<Rule, "phase" | "needs"> & { needs?: Rule["needs"] };
export const loadRule = (rule: LoadRule): Rule => ({ needs, ...rule, phase: "load" });
