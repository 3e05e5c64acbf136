/** What the rules about load have in common: what a limit is called, and that the user allowed a burst. */
import type { Target } from "../../../target/target.ts";
import type { Checks } from "../../checks.ts";
import { DOWN, rateOf } from "../../limits/load-burst.ts";
import type { Cost, Rule } from "../../rule.ts";
import { type Answer, inWords } from "../../sending/answer.ts";

const LIMITS =
  /^(2\d\d( error event)?|429 (rate_limited|b2b_overloaded|org_overloaded|limiter_unavailable)|indeterminate)$/;
export const needs = { permission: "load", anyOf: ["server", "publishable"] } as const;

/**
 * What is neither served nor refused in a limit's words. The key service (item 216) or a balancer's way may be down at any moment:
 * whether that stands for a limit is another question.
 */
const isMisfit = ({ outcome }: Answer): boolean => !LIMITS.test(outcome) && !DOWN.test(outcome);

export const requireLimits = (checks: Checks, answers: readonly Answer[]): void => {
  for (const answer of answers) {
    checks.require(!isMisfit(answer), answer, "2xx or a limit's own subcode", inWords(answer));
  }
};

/** For so long a key is kept at its edge. */
const EDGE_FOR_S = 4;
/** All waves together, where the permit is wide. */
const WAVES_CALLS_MAX = 512;

/** The waves that meet the caps, sent once for all who look at them. */
export const wavesCost = (target: Target): Cost => ({
  calls: Math.min(WAVES_CALLS_MAX, 4 * rateOf(target)),
  shared: "overload",
});

/** The burst that meets the rate limit of one key, sent once for all who look at it. */
export const rateEdgeCost = (target: Target): Cost => ({
  calls: EDGE_FOR_S * rateOf(target) + 5,
  shared: "rate edge",
});

/** Two waves, and a rate edge between them. */
export const wavesAroundAnEdgeCost = (target: Target): Cost => ({
  calls: 2 * Math.min(WAVES_CALLS_MAX, rateOf(target)) + EDGE_FOR_S * rateOf(target) + 24,
});

export const CALM_MS = 1_500;

type LoadRule = Omit<Rule, "phase" | "needs"> & { needs?: Rule["needs"] };
export const loadRule = (rule: LoadRule): Rule => ({ needs, ...rule, phase: "load" });
