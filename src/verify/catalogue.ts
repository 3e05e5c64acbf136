/** Every rule of `verify`, in the order in which they are tried. */
import { noSuch } from "../contract/nearest.ts";
import { PHASES, type Rule } from "./rule.ts";
import { ALLOWANCE_RULES } from "./rules/allowance.ts";
import { CAP_RULES, SHEDDING_ENDS } from "./rules/caps.ts";
import { CREDENTIAL_RULES } from "./rules/credentials.ts";
import { EVERY_ANSWER_RULES } from "./rules/every-answer.ts";
import { EXCHANGE_RULES } from "./rules/exchange.ts";
import { ANALYSIS_NEEDS_A_DATASET, MALFORMED_RULES, ROUTE_FAILURE_RULES } from "./rules/failing-bodies.ts";
import { GAP_RULES } from "./rules/gaps.ts";
import { HOSTILE_INPUT } from "./rules/hostile-input.ts";
import { KEY_CREATION_RULES } from "./rules/key-creations.ts";
import { KEY_LIFE_RULES } from "./rules/key-life.ts";
import { MIXED_RULES } from "./rules/mixed-calls.ts";
import { OPTIONAL_MEMBER_RULES } from "./rules/optional-members.ts";
import { OVERLOAD_RULES } from "./rules/overload.ts";
import { RATE_LIMIT_ENDS, RATE_RULES } from "./rules/rate.ts";
import { CORS_RULES, RUNTIME_ANSWER_RULES, RUNTIME_RULES } from "./rules/runtime.ts";
import { SESSION_RULES } from "./rules/sessions.ts";
import { STREAM_RULES } from "./rules/streams.ts";

/** The order within a phase matters only at the commented places. */
const ALL: readonly Rule[] = [
  ...[...SESSION_RULES, ...CREDENTIAL_RULES, ...EXCHANGE_RULES, ...RUNTIME_RULES, ...CORS_RULES],
  // The rule about an analysis without a dataset runs before the rules that spend the budget of analyses.
  ...[ANALYSIS_NEEDS_A_DATASET, ...RUNTIME_ANSWER_RULES, ...OPTIONAL_MEMBER_RULES],
  ...[...MIXED_RULES, ...ROUTE_FAILURE_RULES, ...MALFORMED_RULES, HOSTILE_INPUT, ...STREAM_RULES],
  ...[...ALLOWANCE_RULES, ...KEY_CREATION_RULES, ...KEY_LIFE_RULES, ...GAP_RULES],
  ...[...RATE_RULES, ...OVERLOAD_RULES, ...CAP_RULES],
  // `rate-limit-ends` follows the other bursts, when most of a rate window has passed.
  ...[RATE_LIMIT_ENDS, ...EVERY_ANSWER_RULES],
  // `shedding-ends` comes last, because it sends calls of its own.
  SHEDDING_ENDS,
];

export const RULES: readonly Rule[] = PHASES.flatMap((phase) => ALL.filter((rule) => rule.phase === phase));

/** Selects rules by `--only` and `--skip`, which name rules or phases. Returns names that are neither as `unknown`. */
export const selectRules = (only: readonly string[] = [], skip: readonly string[] = []) => {
  const means = (names: readonly string[], { id, phase }: Rule): boolean =>
    names.some((name) => [id, phase].includes(name.replace(/^verify\//, "")));
  const unknown = [...only, ...skip].filter((name) => !RULES.some((rule) => means([name], rule)));
  const rules = RULES.filter((rule) => (only.length === 0 || means(only, rule)) && !means(skip, rule));
  return { rules, unknown };
};

export class UnknownRuleError extends Error {
  override name = "UnknownRuleError";
}

export const chosenRules = (only: readonly string[] | undefined, skip: readonly string[] | undefined): Rule[] => {
  const { rules, unknown } = selectRules(only, skip);
  if (unknown[0] === undefined) return rules;
  const known = [...RULES.map(({ id }) => id), ...PHASES];
  throw new UnknownRuleError(noSuch("rule or phase", unknown[0], known, "--list shows them all"));
};

/** If every chosen rule only judges the run's answers, adds unreported rules that produce answers. */
export const withAnswers = (rules: readonly Rule[]): { rule: Rule; reported: boolean }[] => {
  const chosen = rules.map((rule) => ({ rule, reported: true }));
  if (rules.length === 0 || rules.some(({ phase }) => phase !== "every-answer")) return chosen;
  const asking = selectRules(["lattice", "order", "bodies", "meters"]).rules;
  return [...asking.map((rule) => ({ rule, reported: false })), ...chosen];
};
