/** The catalogue of refusals that platform, drivers and judges share (section 7, items 182-223). */
import { isAnswerless, type StreamEnding, streamResult } from "./streams.ts";

/** How the body of a refusal looks (section 7.1): `{detail}`, a flat `{error}`, or a body without either. */
export type Envelope = "detail" | "flat" | "none";

export type Refusal = {
  readonly status: number;
  /** `null` if the specification gives no `detail` (401 and 503). */
  readonly subcode: string | null;
  readonly envelope: Envelope;
  /** Seconds that the reference platform puts in `Retry-After`, `null` for none (item 218). */
  readonly retryAfterS: number | null;
  /** Whether a well-behaved client tries again within a run (item 219). */
  readonly retryable: boolean;
};

const refusal = (
  status: number,
  subcode: string | null,
  envelope: Envelope = subcode === null ? "none" : "detail",
  retryAfterS: number | null = null,
): Refusal => ({ status, subcode, envelope, retryAfterS, retryable: retryAfterS !== null && retryAfterS < 3600 });

/** Refusals whose names are their subcodes, in the envelope `detail`. */
const named = <Name extends string>(status: number, ...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, refusal(status, name)])) as Record<Name, Refusal>;

/** Every refusal of the specification by name, which is the subcode if there is one. */
export const REFUSALS = {
  unauthenticated: refusal(401, null),
  ...named(401, "publishable_requires_session"),
  ...named(403, "insufficient_scope", "tier_capability_not_allowed", "origin_required", "session_origin_mismatch"),
  ...named(403, "product_not_allowed", "server_key_in_browser", "ip_not_allowed", "publishable_key_required"),
  ...named(403, "sessions_disabled", "sessions_not_configured"),
  ...named(422, "malformed_body", "unknown_scope", "unknown_product", "publishable_live_requires_origins"),
  ...named(403, "free_plan_publishable_only", "plan_required", "vendor_scope_requires_acknowledgement"),
  ...named(409, "key_limit_reached"),
  map_load_quota_exceeded: refusal(429, "map_load_quota_exceeded", "flat"),
  map_load_hard_stop: refusal(429, "map_load_hard_stop"),
  tile_access_restricted: refusal(429, "tile_access_restricted", "flat", 3600),
  b2b_overloaded: refusal(429, "b2b_overloaded", "flat", 1),
  org_overloaded: refusal(429, "org_overloaded", "flat", 1),
  limiter_unavailable: refusal(429, "limiter_unavailable", "detail", 1),
  rate_limited: refusal(429, "rate_limited", "detail", 1),
  key_service_unavailable: refusal(503, null, "none", 1),
} as const satisfies Record<string, Refusal>;

export type RefusalName = keyof typeof REFUSALS;

/** A paid organization is answered `map_load_hard_stop` beyond this many times its allowance (items 205, 225). */
export const HARD_STOP_FACTOR = 5;

/** Refusals outside section 7, chosen by the reference platform for gaps (items 18, 127, 232). */
export const GAP_REFUSALS = {
  not_found: refusal(404, "Not Found"),
  method_not_allowed: refusal(405, "Method Not Allowed"),
  payload_too_large: refusal(413, "Payload Too Large"),
  forbidden: refusal(403, "forbidden"),
} as const satisfies Record<string, Refusal>;

export type GapRefusalName = keyof typeof GAP_REFUSALS;
export type AnyRefusalName = RefusalName | GapRefusalName;

/** The refusals of load shedding (section 7.2; item 220). */
export const SHEDS: readonly RefusalName[] = ["b2b_overloaded", "org_overloaded"];

/** Older subcodes that a deployment may still use (item 73): read, never written. */
export const LEGACY_SUBCODES: Readonly<Record<string, RefusalName>> = { origin_not_allowed: "session_origin_mismatch" };

const ALL: Readonly<Record<AnyRefusalName, Refusal>> = { ...REFUSALS, ...GAP_REFUSALS };
export const refusalOf = (name: AnyRefusalName): Refusal => ALL[name];

/** The outcome of a refusal, as in `by_outcome` and `/counts`: the status, a space and the subcode if there is one. */
export const outcomeOf = (name: AnyRefusalName): string => {
  const { status, subcode } = ALL[name];
  return subcode === null ? `${status}` : `${status} ${subcode}`;
};

export const RATE_LIMITED = outcomeOf("rate_limited");

export const SHED_OUTCOMES: ReadonlySet<string> = new Set(SHEDS.map(outcomeOf));

export const REFUSAL_BY_OUTCOME: ReadonlyMap<string, Refusal> = new Map(
  (Object.keys(ALL) as AnyRefusalName[]).map((name) => [outcomeOf(name), ALL[name]]),
);

/** The two failures under status 200: an `error` key in the body, and an `error` event in a stream. */
export const ERROR_IN_BODY = "200 error";
export const ERROR_IN_STREAM = "200 error event";

/** The outcome of an admitted stream that ended cleanly without an event, or of an answer that is no event stream. */
export const emptyOutcome = (status: number): string => `${status} empty`;
export const isEmptyOutcome = (outcome: string): boolean => /^2\d\d empty$/.test(outcome);

export const outcomeOfStream = (status: number, ending: StreamEnding): string => {
  const result = streamResult(ending);
  if (result === "failed") return ERROR_IN_STREAM;
  return result === "empty" ? emptyOutcome(status) : `${status}`;
};

export const admissionOf = (outcome: string): string => (isEmptyOutcome(outcome) ? outcome.slice(0, 3) : outcome);

export const isUnanswered = (outcome: string, ending: StreamEnding): boolean =>
  isEmptyOutcome(outcome) || (/^2\d\d$/.test(outcome) && isAnswerless(ending));

/**
 * Reports an error for `slo` and `stop_when`: no answer, an answer outside the contract, or a 5xx; a refusal is not an
 * error. `tolerated`: prefixes of outcomes that do not count as errors.
 */
export const isError = (outcome: string, ending: StreamEnding = {}, tolerated: readonly string[] = []): boolean => {
  const came = isUnanswered(outcome, ending) ? "indeterminate" : outcome;
  return /^(?:indeterminate|edge |5\d\d)/.test(came) && !tolerated.some((one) => came.startsWith(one));
};

/** The name in `by_outcome` and history lines, which is one for both failures under 200; `ended` tells them apart. */
export const countedAs = (outcome: string): string => (outcome === ERROR_IN_STREAM ? ERROR_IN_BODY : outcome);

/** The 30 outcomes of `coverage.outcomes_seen` (requirements.md part D): 28 refusals, two failures under status 200. */
export const OUTCOMES: readonly string[] = [
  ...(Object.keys(REFUSALS) as RefusalName[]).map(outcomeOf),
  ERROR_IN_BODY,
  ERROR_IN_STREAM,
];

/** Reports whether an outcome is in the specification, or was chosen by the reference platform for a gap. */
export const isListed = (outcome: string): boolean =>
  REFUSAL_BY_OUTCOME.has(outcome) || outcome === ERROR_IN_BODY || outcome === ERROR_IN_STREAM;
