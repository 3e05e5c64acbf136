/** The catalogue of refusals that platform, drivers and judges share (section 7, items 182-223), and their bodies. */

import { foreignName, REFUSAL_BODY_MOST } from "./foreign-text.ts";
import { isAnswerless, type StreamEnding, streamResult } from "./streams.ts";

/** How the body of a refusal looks (section 7.1): `{detail}`, a flat `{error}`, or a body without either. */
export type Envelope = "detail" | "flat" | "none";

type Refusal = {
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

/** What `map_load_quota_exceeded` adds to its flat body (item 184). */
export type QuotaFields = { meter: string; limit: number; used: number };

export type EnvelopeSeen = "detail" | "flat" | "none" | "both" | "other";

/** One entry of a 422 answer (item 203), in the form of FastAPI. */
export type BodyError = { loc: (string | number)[]; msg: string; type: string };

/** `quota` is required for `map_load_quota_exceeded` and ignored elsewhere. */
export const writeEnvelope = (name: AnyRefusalName, quota?: QuotaFields, errors?: BodyError[]): object => {
  const { subcode, envelope } = refusalOf(name);
  if (envelope === "none") return {};
  if (envelope === "flat") return quota === undefined ? { error: subcode } : { error: subcode, ...quota };
  return errors === undefined ? { detail: subcode } : { detail: subcode, errors };
};

type AnswerRead = {
  outcome: string;
  subcode: string | null;
  envelope: EnvelopeSeen;
  /** `undefined`: no JSON. */
  body: unknown;
  quota?: { meter: unknown; limit: unknown; used: unknown };
};

// A map, because an object also has `constructor` and `toString`.
export const SUBCODE_OF_OLDER_NAME = new Map<string, string>(Object.entries(LEGACY_SUBCODES));

/** The mark that RFC 8259 (section 8.1) forbids before JSON, and that readers may ignore. */
export const BYTE_ORDER_MARK = "\ufeff";

export const parseJson = (text: string): unknown => {
  // Fast path: most bodies of a history are empty, and exceptions are slow.
  if (text === "") return undefined;
  try {
    // A byte order mark is no part of the text: browsers and this reader leave it out.
    return JSON.parse(text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text);
  } catch {
    return undefined;
  }
};

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const envelopeSeen = (body: unknown, text: string): EnvelopeSeen => {
  if (text.trim() === "") return "none";
  if (!isObject(body)) return "other";
  const detail = "detail" in body;
  const flat = "error" in body;
  if (detail && flat) return "both";
  return detail ? "detail" : flat ? "flat" : "none";
};

const CODING = /^(?:x-)?(gzip|compress|deflate|br|zstd)$/;

/** The first coding of a `Content-Encoding`; `null` for an uncoded body, `unknown` for an unregistered name. */
export const codingOf = (contentEncoding: string | undefined): string | null => {
  if (contentEncoding === undefined) return null;
  for (const part of contentEncoding.toLowerCase().split(",")) {
    const name = part.trim();
    if (name !== "" && name !== "identity") return CODING.exec(name)?.[1] ?? "unknown";
  }
  return null;
};

/**
 * Matches a text that begins like JSON; a number or a word must be the whole text. A body of another kind (a page, a
 * sentence, binary data) is not the API's.
 */
const LIKE_JSON = /^\s*(?:$|[[{"]|(?:-?\d+(?:\.\d+)?|true|false|null)\s*$)/;

/** Statuses of gateways, whatever the body: RFC 9110, and habits of nginx (49x), AWS (46x), Cloudflare (52x, 530). */
const GATEWAYS = /^(?:3\d\d|408|413|414|431|46\d|49\d|502|504|52\d|530)$/;
/** Statuses of both: a gateway puts a sentence in `error` (`Too Many Requests`), the API a subcode. */
const SHARED = /^(?:403|404|405|429)$/;
const SUBCODE = /^[a-z][a-z0-9_]*$/;

/** Reports whether a body is a problem document (RFC 9457). Gateways write those; no body of the contract has a title. */
export const isProblem = ({ title }: Record<string, unknown>): boolean => typeof title === "string";

/** Reports whether a message that is not listed for this status comes from a gateway. */
export const isGateways = (status: number, said: string, hasDetail: boolean): boolean =>
  GATEWAYS.test(`${status}`) || (SHARED.test(`${status}`) && !hasDetail && !SUBCODE.test(said));

const SPECIFIED = new Set(OUTCOMES);

/**
 * Returns a subcode of this status that stands under any other member, such as the `message` of a framework's own error;
 * `null` for none. Only the API knows its subcodes, so no gateway wrote such a body; except that Cloudflare's problem
 * documents name its own limit `rate_limited`.
 */
export const subcodeElsewhere = (status: number, fields: Record<string, unknown>): string | null => {
  const texts = [fields, ...Object.values(fields).filter(isObject)].flatMap((one) => Object.values(one));
  const found = texts.find((text) => typeof text === "string" && SPECIFIED.has(`${status} ${text}`));
  return typeof found !== "string" || (found === "rate_limited" && isProblem(fields)) ? null : found;
};

/**
 * Names an answer's outcome, `edge NNN` outside the contract. In a wrong envelope the subcode is kept for judges. `coding`:
 * the content coding from `codingOf`; no call asks for one, and no driver decodes one. `anyBody`: a success may have any
 * body, as a tile has, or an answer from a path outside the routes.
 */
export const readAnswer = (
  status: number,
  text: string,
  { coding, anyBody }: { coding?: string | null; anyBody?: boolean } = {},
): AnswerRead => {
  if (coding !== undefined && coding !== null) {
    return { outcome: `edge ${status}`, subcode: null, envelope: "other", body: undefined };
  }
  const isTooLong = status >= 300 && text.length > REFUSAL_BODY_MOST;
  const body = isTooLong ? undefined : parseJson(text);
  const envelope = envelopeSeen(body, text);
  const fields = isObject(body) ? body : {};
  const said =
    typeof fields.detail === "string" ? fields.detail : typeof fields.error === "string" ? fields.error : null;
  const read = (outcome: string, subcode: string | null, seen = envelope): AnswerRead => {
    const answer = { outcome, subcode, envelope: seen, body };
    if (subcode !== "map_load_quota_exceeded") return answer;
    return { ...answer, quota: { meter: fields.meter, limit: fields.limit, used: fields.used } };
  };
  if (status >= 200 && status < 300) {
    if (anyBody !== true && !LIKE_JSON.test(text)) return read(`edge ${status}`, null);
    return "error" in fields ? read(ERROR_IN_BODY, null) : read(`${status}`, null);
  }
  const subcode = said === null ? null : (SUBCODE_OF_OLDER_NAME.get(said) ?? said);
  if (subcode !== null && REFUSAL_BY_OUTCOME.has(`${status} ${subcode}`)) return read(`${status} ${subcode}`, subcode);
  const elsewhere = subcodeElsewhere(status, fields);
  if (elsewhere !== null) return read(`${status} ${elsewhere}`, elsewhere, "other");
  if (subcode !== null) {
    // A 422 may have any subcode ("various", item 202); other unknown subcodes are still the API's.
    if (status === 422) return read("422 malformed_body", "malformed_body");
    // 401 and 503 without `detail` may have any body (item 189), so its text is not a subcode.
    if (REFUSAL_BY_OUTCOME.has(`${status}`) && !("detail" in fields)) {
      return { outcome: `${status}`, subcode: null, envelope: "none", body };
    }
    if (isProblem(fields) || isGateways(status, subcode, "detail" in fields)) return read(`edge ${status}`, null);
    const name = foreignName(subcode);
    return read(`${status} ${name}`, name);
  }
  if (status === 422 && Array.isArray(fields.detail)) return read("422 malformed_body", "malformed_body");
  if (REFUSAL_BY_OUTCOME.has(`${status}`) && (isObject(body) || text.trim() === "")) return read(`${status}`, null);
  // Item 189 allows any body, but an HTML page is a gateway's.
  if (status === 401 && !/^\s*</.test(text)) return read("401", null);
  return read(`edge ${status}`, null);
};
