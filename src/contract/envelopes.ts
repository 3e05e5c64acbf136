/** Writes and reads the bodies of refusals (section 7.1, items 182-189). */
import { foreignName, REFUSAL_BODY_MOST } from "./foreign-text.ts";
import {
  type AnyRefusalName,
  ERROR_IN_BODY,
  LEGACY_SUBCODES,
  OUTCOMES,
  REFUSAL_BY_OUTCOME,
  refusalOf,
} from "./refusals.ts";

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
 * `null` for none. Only the API knows its subcodes, so no gateway wrote such a body.
 */
export const subcodeElsewhere = (status: number, fields: Record<string, unknown>): string | null => {
  const texts = [fields, ...Object.values(fields).filter(isObject)].flatMap((one) => Object.values(one));
  const found = texts.find((text) => typeof text === "string" && SPECIFIED.has(`${status} ${text}`));
  return (found as string | undefined) ?? null;
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
