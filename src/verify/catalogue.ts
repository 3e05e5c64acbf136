/** Every rule of `verify`, in the order in which they are tried. */
import { noSuch } from "../contract/nearest.ts";
import { PHASES, type Rule } from "./rule.ts";
import { unaskedCodings } from "./rules/every-answer/answers-have-no-unasked-coding.ts";
import { corsIsWhole } from "./rules/every-answer/cors-for-every-answer.ts";
import { ECHO_RULES } from "./rules/every-answer/credentials-are-not-echoed.ts";
import { EVERY_ANSWER_RULES } from "./rules/every-answer/every-answer.ts";
import { PREFLIGHT_RULES } from "./rules/every-answer/preflight.ts";
import { remains, sessionLasts } from "./rules/every-answer/session-lasts.ts";
import { freeAllowance } from "./rules/exchange/allowance-is-exact.ts";
import { EXCHANGE_CAPABILITY_RULES } from "./rules/exchange/exchange-capabilities.ts";
import { mints } from "./rules/exchange/exchange-mints.ts";
import { kindFirst, originBeforeQuota, originFirst, productBeforeQuota } from "./rules/exchange/exchange-order.ts";
import { ORIGIN_RULES } from "./rules/exchange/exchange-origin.ts";
import { sessionAtExchange, wrongKind } from "./rules/exchange/exchange-wrong-kind.ts";
import { MAP_ID_RULES } from "./rules/exchange/map-id.ts";
import { expiresIn, productEcho, tokenForm } from "./rules/exchange/minted-session.ts";
import { otherProducts } from "./rules/exchange/other-products-are-not-charged.ts";
import { METER_RULES } from "./rules/exchange/quota-and-hard-stop.ts";
import { BASEMAP_RULES } from "./rules/exchange/session-basemap-style.ts";
import { ends, lifetime } from "./rules/exchange/session-lifetime.ts";
import { paid } from "./rules/exchange/soft-band-and-hard-stop.ts";
import { quotaAtLoads } from "./rules/exchange/used-up-allowance-stops-loads.ts";
import { analysisNeedsADataset } from "./rules/input/analysis-needs-a-dataset.ts";
import { HOSTILE_RULES } from "./rules/input/hostile-input.ts";
import { FOREIGN_LETTER_RULES } from "./rules/input/key-with-a-foreign-letter.ts";
import { exchangeMalformed, runtimeMalformed, runtimeUnshown } from "./rules/input/malformed-bodies.ts";
import { WRONG_PRODUCT_RULES } from "./rules/input/wrong-product.ts";
import { LIMIT_ANSWER_RULES } from "./rules/limits/limit-answers.ts";
import { MIXED_RULES } from "./rules/limits/mixed-calls.ts";
import { overloadIsTold, overloadNamesTheCap, overloadSparesOthers } from "./rules/limits/overload.ts";
import { capIsTheOrganizations, capsAreKept } from "./rules/limits/overload-caps.ts";
import { overloadEnds } from "./rules/limits/overload-ends.ts";
import { globalOverload } from "./rules/limits/overload-is-no-outage.ts";
import { RATE_RULES } from "./rules/limits/rate-limit.ts";
import { rateLimitEnds } from "./rules/limits/rate-limit-ends.ts";
import { refusalsAreCheap } from "./rules/limits/refusals-are-cheap.ts";
import { sheddingEnds } from "./rules/limits/shedding-ends.ts";
import { slotsComeBack } from "./rules/limits/slots-come-back.ts";
import { CREATED_KEY_RULES } from "./rules/management/created-keys.ts";
import { KEY_LIFE_RULES } from "./rules/management/key-life.ts";
import { MANAGEMENT_RULES } from "./rules/management/keys-refused.ts";
import { MANAGEMENT_CALL_RULES } from "./rules/management/management-calls.ts";
import { MANAGEMENT_CHANGE_RULES } from "./rules/management/management-changes.ts";
import { SERVER_KEY_LIFE_RULES } from "./rules/management/server-key-life.ts";
import { ANALYSIS_RULES } from "./rules/runtime/analysis-prompt-is-optional.ts";
import { CONTROL_FIELD_RULES } from "./rules/runtime/control-optional-fields.ts";
import { eitherHeader, exchangeHeader } from "./rules/runtime/either-header.ts";
import { forgedSession } from "./rules/runtime/forged-session.ts";
import { GAP_RULES } from "./rules/runtime/gaps.ts";
import { invalidCredential } from "./rules/runtime/invalid-credential.ts";
import { foreignAddress } from "./rules/runtime/ip-not-allowed.ts";
import { corsForListed } from "./rules/runtime/listed-origin-is-not-blocked-by-cors.ts";
import { missingCredential, missingOnRoute } from "./rules/runtime/missing-credential.ts";
import { nearMisses } from "./rules/runtime/near-miss-of-a-credential.ts";
import { ORGANIZATION_RULES } from "./rules/runtime/organizations.ts";
import { POI_OPTION_RULES } from "./rules/runtime/poi-parameters.ts";
import { publishableAtRuntime, publishableAtTiles } from "./rules/runtime/publishable-key-at-runtime.ts";
import { expiredKey, revokedKey } from "./rules/runtime/revoked-and-expired-keys.ts";
import { ROUTE_RULES } from "./rules/runtime/route-failures.ts";
import { RUNTIME_RULES } from "./rules/runtime/runtime-admits.ts";
import { RUNTIME_CAPABILITY_RULES } from "./rules/runtime/runtime-capabilities.ts";
import { runtimeOrder } from "./rules/runtime/runtime-order.ts";
import { serverKeyCors, serverKeyInBrowser, serverKeyInFrame } from "./rules/runtime/server-key-in-browser.ts";
import { sessionOrigin } from "./rules/runtime/session-origin-mismatch.ts";
import { nullOrigin } from "./rules/runtime/session-origin-null.ts";
import { summaryTypes } from "./rules/runtime/summary-takes-both-types.ts";
import { tileAdmitted, tileOrigin } from "./rules/runtime/tile-origins.ts";
import { unparsableSession } from "./rules/runtime/unparsable-session.ts";
import { STREAM_END_RULES } from "./rules/streams/stream-ends.ts";
import { STREAM_ERROR_RULES } from "./rules/streams/stream-errors.ts";
import { STREAM_RULES } from "./rules/streams/streams.ts";

const ALL: readonly Rule[] = [
  mints,
  tokenForm,
  expiresIn,
  productEcho,
  lifetime,
  ends,
  ...MAP_ID_RULES,
  ...BASEMAP_RULES,
  missingCredential,
  missingOnRoute,
  invalidCredential,
  revokedKey,
  expiredKey,
  eitherHeader,
  exchangeHeader,
  nearMisses,
  forgedSession,
  unparsableSession,
  ...FOREIGN_LETTER_RULES,
  publishableAtRuntime,
  publishableAtTiles,
  serverKeyInBrowser,
  serverKeyInFrame,
  serverKeyCors,
  foreignAddress,
  wrongKind,
  sessionAtExchange,
  ...ORIGIN_RULES,
  sessionOrigin,
  tileOrigin,
  tileAdmitted,
  corsForListed,
  ...PREFLIGHT_RULES,
  ...EXCHANGE_CAPABILITY_RULES,
  ...RUNTIME_CAPABILITY_RULES,
  analysisNeedsADataset,
  ...RUNTIME_RULES,
  ...POI_OPTION_RULES,
  summaryTypes,
  ...CONTROL_FIELD_RULES,
  kindFirst,
  originFirst,
  originBeforeQuota,
  productBeforeQuota,
  runtimeOrder,
  ...MIXED_RULES,
  ...ROUTE_RULES,
  exchangeMalformed,
  ...WRONG_PRODUCT_RULES,
  runtimeMalformed,
  runtimeUnshown,
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
  otherProducts,
  paid,
  quotaAtLoads,
  ...RATE_RULES,
  overloadIsTold,
  overloadSparesOthers,
  overloadNamesTheCap,
  refusalsAreCheap,
  slotsComeBack,
  globalOverload,
  capsAreKept,
  capIsTheOrganizations,
  overloadEnds,
  rateLimitEnds,
  ...EVERY_ANSWER_RULES,
  ...LIMIT_ANSWER_RULES,
  corsIsWhole,
  sessionLasts,
  remains,
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
  if (unknown[0] === undefined) return rules;
  const known = [...RULES.map(({ id }) => id), ...PHASES];
  throw new UnknownRuleError(noSuch("rule or phase", unknown[0], known, "--list shows them all"));
};

/** Rules about every answer need answers: alone they would have nothing to look at. */
export const withAnswers = (rules: readonly Rule[]): { rule: Rule; reported: boolean }[] => {
  const chosen = rules.map((rule) => ({ rule, reported: true }));
  if (!rules.some(({ phase }) => phase === "every-answer") || rules.some(({ phase }) => phase !== "every-answer"))
    return chosen;
  const asking = selectRules(["lattice", "order", "bodies", "meters"], []).rules;
  return [...asking.map((rule) => ({ rule, reported: false })), ...chosen];
};
