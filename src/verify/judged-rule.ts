/** Runs one rule and makes a claim of its verdict. */
import type { Claim } from "../history/run-document.ts";
import { SecretError } from "../target/secrets.ts";
import type { Context } from "./context.ts";
import { lackOf, OPTION_OF, type Permits } from "./planning/lacks.ts";
import { BudgetSpentError, shortageOf } from "./planning/needs.ts";
import type { Rule } from "./rule.ts";
import { CannotJudge, type Failure, type Open, type Verdict } from "./verdict.ts";

const notJudged = ({ verdict, reason, ...spent }: Open, expected: string): Verdict => ({
  verdict,
  reason: verdict === "skipped" ? `skipped: ${reason}` : reason,
  ...{ expected, got: "not judged", evidence: [] },
  ...spent,
});

/** Finds the budget that stopped a call. If the target file states none, uses the message of the default budget. */
const shortageBehind = (error: BudgetSpentError, { target, budget }: Context): Open => {
  const spendings = ["requests", "map_loads", "analyses"] as const;
  const short = spendings.flatMap((what) => shortageOf(target, budget.left, what, 1) ?? []);
  return short.find(({ verdict }) => verdict === "inconclusive") ?? { verdict: "skipped", reason: error.message };
};

export const isStopped = ({ signal }: Context): boolean => signal?.aborted === true;
const STOPPED: Open = { verdict: "inconclusive", reason: "the run was stopped" };

const openOf = (error: unknown, context: Context): Open => {
  if (error instanceof BudgetSpentError) return shortageBehind(error, context);
  if (error instanceof CannotJudge) return error.open;
  if (error instanceof SecretError) throw error;
  if (isStopped(context)) return STOPPED;
  const message = error instanceof Error ? error.message : String(error);
  return { verdict: "inconclusive", reason: `the rule itself failed: ${message}` };
};

const tryRule = async (rule: Rule, context: Context, permits: Permits): Promise<Verdict> => {
  const lack = lackOf(rule, context.target, permits, context.budget.left) ?? (isStopped(context) ? STOPPED : null);
  if (lack !== null) return notJudged(lack, rule.title);
  return rule.run(context).catch((error: unknown) => notJudged(openOf(error, context), rule.title));
};

/** A gap in the specification never fails a deployment: the finding is recorded. */
const recordedOnly = (rule: Rule, result: Verdict): Verdict => {
  if (rule.level !== "info" || result.verdict !== "fail") return result;
  const { failure: _, ...found } = result;
  return { ...found, verdict: "pass", reason: "recorded, not judged: the specification leaves it open" };
};

/** Start of a rule's replay command; callers replace FILE by the target file's name. */
export const VERIFY_COMMAND = "npx floodgate verify --target FILE";

export type Judged = {
  rule: Rule;
  claim: Claim;
  failure: Failure | undefined;
  idle: boolean;
  spent: string | undefined;
};

export const judgedRule = async (rule: Rule, context: Context, permits: Permits, stage: string): Promise<Judged> => {
  const { failure, idle, spent, ...found } = recordedOnly(rule, await tryRule(rule, context, permits));
  const option = rule.needs.permission === undefined ? "" : ` ${OPTION_OF[rule.needs.permission]}`;
  const claim: Claim = {
    id: `verify/${rule.id}`,
    stage,
    // An idle rule must not fail a target under `--require-all`.
    level: idle === true ? "info" : rule.level,
    ...found,
    spec: [...rule.spec],
    replay: `${VERIFY_COMMAND} --only ${rule.id}${option}`,
  };
  return { rule, claim, failure, idle: idle === true, spent };
};
