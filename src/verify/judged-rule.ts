/**
 * One rule, tried once, made into a claim. What it lacks is named and it is skipped; what it cannot judge, what the run's
 * budget no longer allows, and a rule that fails itself, say nothing about the target.
 */
import type { Claim } from "../history/run-document.ts";
import { BudgetSpentError } from "../target/budget.ts";
import { SecretError } from "../target/secrets.ts";
import { CannotJudge } from "./cannot-judge.ts";
import type { Context } from "./context.ts";
import { lackOf, OPTION_OF, type Permits } from "./planning/lacks.ts";
import { OutOfBudget, type Shortage, shortageOf } from "./planning/shortage.ts";
import type { Rule } from "./rule.ts";
import type { Failure, RuleResult } from "./rule-result.ts";

const SPENDINGS = ["requests", "map_loads", "analyses"] as const;

const notJudged = (verdict: "inconclusive" | "skipped", reason: string, expected: string): RuleResult => ({
  verdict,
  reason: verdict === "skipped" ? `skipped: ${reason}` : reason,
  expected,
  got: "not judged",
  evidence: [],
});

const outOfBudget = ({ verdict, reason }: Shortage, expected: string): RuleResult => ({
  ...notJudged(verdict, reason, expected),
  ...(verdict === "inconclusive" ? { spent: true as const } : {}),
});

/** Which of the budgets stopped a call; where the target file states none of them, in the words of the one that did. */
const shortageBehind = (error: BudgetSpentError, { target, budget }: Context): Shortage => {
  const short = SPENDINGS.flatMap((what) => shortageOf(target, budget.left, what, 1) ?? []);
  return short.find(({ verdict }) => verdict === "inconclusive") ?? { verdict: "skipped", reason: error.message };
};

export const isStopped = ({ signal }: Context): boolean => signal?.aborted === true;

const tryRule = async (rule: Rule, context: Context, permits: Permits): Promise<RuleResult> => {
  const lack = lackOf(rule, context.target, permits, context.budget.left);
  if (lack !== null) return outOfBudget(lack, rule.title);
  if (isStopped(context)) return notJudged("inconclusive", "the run was stopped", rule.title);
  try {
    return await rule.run(context);
  } catch (error) {
    if (error instanceof OutOfBudget) return outOfBudget({ verdict: error.verdict, reason: error.message }, rule.title);
    if (error instanceof BudgetSpentError) return outOfBudget(shortageBehind(error, context), rule.title);
    if (error instanceof CannotJudge) return notJudged(error.verdict, error.message, rule.title);
    if (error instanceof SecretError) throw error;
    if (isStopped(context)) return notJudged("inconclusive", "the run was stopped", rule.title);
    const message = error instanceof Error ? error.message : String(error);
    return notJudged("inconclusive", `the rule itself failed: ${message}`, rule.title);
  }
};

/** What the specification leaves open is never held against a deployment: what was found is written down. */
const recordedOnly = (rule: Rule, result: RuleResult): RuleResult => {
  if (rule.level !== "info" || result.verdict !== "fail") return result;
  const { failure: _, ...found } = result;
  return { ...found, verdict: "pass", reason: "recorded, not judged: the specification leaves it open" };
};

/** How the command of a rule begins; who knows the target file puts its name in place of FILE. */
export const VERIFY_COMMAND = "npx floodgate verify --target FILE";

export type Judged = { rule: Rule; claim: Claim; failure: Failure | undefined; idle: boolean; spent: boolean };

const judgedOf = (rule: Rule, stage: string, { failure, idle: isIdle, spent, ...found }: RuleResult): Judged => {
  const idle = isIdle === true;
  const option = rule.needs.permission === undefined ? "" : ` ${OPTION_OF[rule.needs.permission]}`;
  const claim: Claim = {
    id: `verify/${rule.id}`,
    stage,
    // A rule with nothing to hold must not stand in the way of a target that requires all of verify.
    level: idle ? "info" : rule.level,
    ...found,
    spec: [...rule.spec],
    replay: `${VERIFY_COMMAND} --only ${rule.id}${option}`,
  };
  return { rule, claim, failure, idle, spent: spent === true };
};

export const judgedRule = async (rule: Rule, context: Context, permits: Permits, stage: string): Promise<Judged> =>
  judgedOf(rule, stage, recordedOnly(rule, await tryRule(rule, context, permits)));
