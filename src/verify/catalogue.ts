/** Every rule of `verify`, in the order in which they are tried. */
import { PHASES, type Rule } from "./rule.ts";
import { EVERY_ANSWER_RULES } from "./rules/every-answer/every-answer.ts";
import { PREFLIGHT_RULES } from "./rules/every-answer/preflight.ts";
import { BASEMAP_RULES } from "./rules/exchange/basemap.ts";
import { EVERY_SESSION_RULES } from "./rules/exchange/every-session.ts";
import { EXCHANGE_CAPABILITY_RULES } from "./rules/exchange/exchange-capabilities.ts";
import { freeAllowance } from "./rules/exchange/free-allowance.ts";
import { KEY_KIND_RULES } from "./rules/exchange/key-kinds.ts";
import { MAP_ID_RULES } from "./rules/exchange/map-id.ts";
import { METER_RULES } from "./rules/exchange/meters.ts";
import { MINTING_RULES } from "./rules/exchange/minting.ts";
import { nullOrigin } from "./rules/exchange/null-origin.ts";
import { ORIGIN_RULES } from "./rules/exchange/origins.ts";
import { PAID_BAND_RULES } from "./rules/exchange/paid-band.ts";
import { quotaAtLoads } from "./rules/exchange/quota-at-loads.ts";
import { analysisNeedsADataset } from "./rules/input/analysis-needs-a-dataset.ts";
import { BODY_RULES } from "./rules/input/bodies.ts";
import { unaskedCodings } from "./rules/input/content-codings.ts";
import { FOREIGN_LETTER_RULES } from "./rules/input/foreign-letters.ts";
import { HOSTILE_RULES } from "./rules/input/hostile-input.ts";
import { globalOverload } from "./rules/limits/global-overload.ts";
import { LIMIT_ANSWER_RULES } from "./rules/limits/limit-answers.ts";
import { LOAD_RULES } from "./rules/limits/load.ts";
import { MIXED_RULES } from "./rules/limits/mixed-calls.ts";
import { capIsTheOrganizations, capsAreKept } from "./rules/limits/overload-caps.ts";
import { overloadEnds } from "./rules/limits/overload-ends.ts";
import { rateLimitEnds } from "./rules/limits/rate-ends.ts";
import { sheddingEnds } from "./rules/limits/shedding-ends.ts";
import { CREATED_KEY_RULES } from "./rules/management/created-keys.ts";
import { KEY_LIFE_RULES } from "./rules/management/key-life.ts";
import { MANAGEMENT_RULES } from "./rules/management/management.ts";
import { MANAGEMENT_CALL_RULES } from "./rules/management/management-calls.ts";
import { MANAGEMENT_CHANGE_RULES } from "./rules/management/management-changes.ts";
import { SERVER_KEY_LIFE_RULES } from "./rules/management/server-key-life.ts";
import { ANALYSIS_RULES } from "./rules/runtime/analysis-fields.ts";
import { CONTROL_FIELD_RULES } from "./rules/runtime/control-fields.ts";
import { CREDENTIAL_RULES } from "./rules/runtime/credentials.ts";
import { ECHO_RULES } from "./rules/runtime/echoes.ts";
import { FORGERY_RULES } from "./rules/runtime/forgeries.ts";
import { GAP_RULES } from "./rules/runtime/gaps.ts";
import { ORDER_RULES } from "./rules/runtime/order.ts";
import { ORGANIZATION_RULES } from "./rules/runtime/organizations.ts";
import { POI_OPTION_RULES } from "./rules/runtime/poi-options.ts";
import { ROUTE_RULES } from "./rules/runtime/routes.ts";
import { RUNTIME_RULES } from "./rules/runtime/runtime.ts";
import { RUNTIME_CAPABILITY_RULES } from "./rules/runtime/runtime-capabilities.ts";
import { summaryTypes } from "./rules/runtime/summary-types.ts";
import { unparsableSession } from "./rules/runtime/unparsable-session.ts";
import { STREAM_END_RULES } from "./rules/streams/stream-ends.ts";
import { STREAM_ERROR_RULES } from "./rules/streams/stream-errors.ts";
import { STREAM_RULES } from "./rules/streams/streams.ts";

const ALL: readonly Rule[] = [
  ...MINTING_RULES,
  ...MAP_ID_RULES,
  ...BASEMAP_RULES,
  ...CREDENTIAL_RULES,
  ...FORGERY_RULES,
  unparsableSession,
  ...FOREIGN_LETTER_RULES,
  ...KEY_KIND_RULES,
  ...ORIGIN_RULES,
  ...PREFLIGHT_RULES,
  ...EXCHANGE_CAPABILITY_RULES,
  ...RUNTIME_CAPABILITY_RULES,
  analysisNeedsADataset,
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
