/** Every rule of `verify`, in the order in which they are tried. */
import { PHASES, type Rule } from "./rule.ts";
import { ANALYSIS_RULES } from "./rules/analysis-fields.ts";
import { BASEMAP_RULES } from "./rules/basemap.ts";
import { BODY_RULES } from "./rules/bodies.ts";
import { unaskedCodings } from "./rules/content-codings.ts";
import { CONTROL_FIELD_RULES } from "./rules/control-fields.ts";
import { CREATED_KEY_RULES } from "./rules/created-keys.ts";
import { CREDENTIAL_RULES } from "./rules/credentials.ts";
import { ECHO_RULES } from "./rules/echoes.ts";
import { EVERY_ANSWER_RULES } from "./rules/every-answer.ts";
import { EVERY_SESSION_RULES } from "./rules/every-session.ts";
import { EXCHANGE_CAPABILITY_RULES } from "./rules/exchange-capabilities.ts";
import { FOREIGN_LETTER_RULES } from "./rules/foreign-letters.ts";
import { FORGERY_RULES } from "./rules/forgeries.ts";
import { freeAllowance } from "./rules/free-allowance.ts";
import { GAP_RULES } from "./rules/gaps.ts";
import { globalOverload } from "./rules/global-overload.ts";
import { HOSTILE_RULES } from "./rules/hostile-input.ts";
import { KEY_KIND_RULES } from "./rules/key-kinds.ts";
import { KEY_LIFE_RULES } from "./rules/key-life.ts";
import { LIMIT_ANSWER_RULES } from "./rules/limit-answers.ts";
import { LOAD_RULES } from "./rules/load.ts";
import { MANAGEMENT_RULES } from "./rules/management.ts";
import { MANAGEMENT_CALL_RULES } from "./rules/management-calls.ts";
import { MANAGEMENT_CHANGE_RULES } from "./rules/management-changes.ts";
import { MAP_ID_RULES } from "./rules/map-id.ts";
import { METER_RULES } from "./rules/meters.ts";
import { MINTING_RULES } from "./rules/minting.ts";
import { MIXED_RULES } from "./rules/mixed-calls.ts";
import { nullOrigin } from "./rules/null-origin.ts";
import { ORDER_RULES } from "./rules/order.ts";
import { ORGANIZATION_RULES } from "./rules/organizations.ts";
import { ORIGIN_RULES } from "./rules/origins.ts";
import { capIsTheOrganizations, capsAreKept } from "./rules/overload-caps.ts";
import { overloadEnds } from "./rules/overload-ends.ts";
import { PAID_BAND_RULES } from "./rules/paid-band.ts";
import { POI_OPTION_RULES } from "./rules/poi-options.ts";
import { PREFLIGHT_RULES } from "./rules/preflight.ts";
import { quotaAtLoads } from "./rules/quota-at-loads.ts";
import { rateLimitEnds } from "./rules/rate-ends.ts";
import { ROUTE_RULES } from "./rules/routes.ts";
import { RUNTIME_RULES } from "./rules/runtime.ts";
import { RUNTIME_CAPABILITY_RULES } from "./rules/runtime-capabilities.ts";
import { SERVER_KEY_LIFE_RULES } from "./rules/server-key-life.ts";
import { sheddingEnds } from "./rules/shedding-ends.ts";
import { STREAM_END_RULES } from "./rules/stream-ends.ts";
import { STREAM_ERROR_RULES } from "./rules/stream-errors.ts";
import { STREAM_RULES } from "./rules/streams.ts";
import { summaryTypes } from "./rules/summary-types.ts";

const ALL: readonly Rule[] = [
  ...MINTING_RULES,
  ...MAP_ID_RULES,
  ...BASEMAP_RULES,
  ...CREDENTIAL_RULES,
  ...FORGERY_RULES,
  ...FOREIGN_LETTER_RULES,
  ...KEY_KIND_RULES,
  ...ORIGIN_RULES,
  ...PREFLIGHT_RULES,
  ...EXCHANGE_CAPABILITY_RULES,
  ...RUNTIME_CAPABILITY_RULES,
  ...RUNTIME_RULES,
  ...POI_OPTION_RULES,
  summaryTypes,
  ...CONTROL_FIELD_RULES,
  ...ORDER_RULES,
  ...MIXED_RULES,
  ...ROUTE_RULES,
  ...BODY_RULES,
  ...ANALYSIS_RULES,
  ...HOSTILE_RULES,
  ...STREAM_RULES,
  ...STREAM_END_RULES,
  ...STREAM_ERROR_RULES,
  ...METER_RULES,
  ...ORGANIZATION_RULES,
  ...MANAGEMENT_RULES,
  ...MANAGEMENT_CALL_RULES,
  ...CREATED_KEY_RULES,
  ...MANAGEMENT_CHANGE_RULES,
  ...KEY_LIFE_RULES,
  ...SERVER_KEY_LIFE_RULES,
  ...GAP_RULES,
  nullOrigin,
  freeAllowance,
  ...PAID_BAND_RULES,
  quotaAtLoads,
  ...LOAD_RULES,
  globalOverload,
  capsAreKept,
  capIsTheOrganizations,
  overloadEnds,
  rateLimitEnds,
  ...EVERY_ANSWER_RULES,
  ...LIMIT_ANSWER_RULES,
  ...EVERY_SESSION_RULES,
  ...ECHO_RULES,
  unaskedCodings,
  sheddingEnds,
];

export const RULES: readonly Rule[] = PHASES.flatMap((phase) => ALL.filter((rule) => rule.phase === phase));

export const ruleOf = (id: string): Rule | undefined => RULES.find((rule) => rule.id === id);

/** `--only` and `--skip` name rules or phases; a name that is neither is given back. */
export const selectRules = (
  only: readonly string[] | undefined,
  skip: readonly string[] | undefined,
): { rules: Rule[]; unknown: string[] } => {
  const bare = (name: string): string => name.replace(/^verify\//, "");
  const means = (names: readonly string[], rule: Rule): boolean =>
    names.some((name) => bare(name) === rule.id || bare(name) === rule.phase);
  const unknown = [...(only ?? []), ...(skip ?? [])].filter(
    (name) => ruleOf(bare(name)) === undefined && !(PHASES as readonly string[]).includes(bare(name)),
  );
  const rules = RULES.filter(
    (rule) => (only === undefined || only.length === 0 || means(only, rule)) && !means(skip ?? [], rule),
  );
  return { rules, unknown };
};

/** Names in `only` or `skip` that are no rule and no phase. */
export class UnknownRuleError extends Error {
  override name = "UnknownRuleError";
}

/** As `selectRules`; throws `UnknownRuleError`. */
export const chosenRules = (only: readonly string[] | undefined, skip: readonly string[] | undefined): Rule[] => {
  const { rules, unknown } = selectRules(only, skip);
  if (unknown.length === 0) return rules;
  throw new UnknownRuleError(`no rule or phase is called ${unknown.join(", ")}; --list shows them all`);
};

/** Rules about every answer need answers: alone they would have nothing to look at. */
export const withAnswers = (rules: readonly Rule[]): { rule: Rule; told: boolean }[] => {
  const chosen = rules.map((rule) => ({ rule, told: true }));
  if (!rules.some(({ phase }) => phase === "every-answer") || rules.some(({ phase }) => phase !== "every-answer"))
    return chosen;
  const asking = selectRules(["lattice", "order", "bodies", "meters"], []).rules;
  return [...asking.map((rule) => ({ rule, told: false })), ...chosen];
};
