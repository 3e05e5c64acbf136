/**
 * The bodies of refusals, written and read in one place (specification section 7.1, items 182-189). Reading never throws:
 * what is not a body of the contract is called `edge`, because a balancer or a firewall wrote it, not the API.
 */
import { foreignName, REFUSAL_BODY_MOST } from "./foreign-text.ts";
import { type AnyRefusalName, ERROR_IN_BODY, LEGACY_SUBCODES, REFUSAL_BY_OUTCOME, refusalOf } from "./refusals.ts";

/** What `map_load_quota_exceeded` adds to its flat body (item 184). */
export type QuotaFields = { meter: string; limit: number; used: number };

export type EnvelopeSeen = "detail" | "flat" | "none" | "both" | "other";

/** One entry of a 422 answer (item 203), after FastAPI's habit. */
export type BodyError = { loc: (string | number)[]; msg: string; type: string };

/** The JSON body of a refusal. `quota` is required for `map_load_quota_exceeded` and ignored elsewhere. */
export const writeEnvelope = (name: AnyRefusalName, quota?: QuotaFields, errors?: BodyError[]): object => {
  const { subcode, envelope } = refusalOf(name);
  if (envelope === "none") return {};
  if (envelope === "flat") return quota === undefined ? { error: subcode } : { error: subcode, ...quota };
  return errors === undefined ? { detail: subcode } : { detail: subcode, errors };
};

type AnswerRead = {
  /** As counted in `by_outcome`. */
  outcome: string;
  subcode: string | null;
  envelope: EnvelopeSeen;
  /** The body as JSON, or `undefined` where it was none. */
  body: unknown;
  quota?: { meter: unknown; limit: unknown; used: unknown };
};

// A map and not the object itself, which would also know `constructor` and `toString`.
export const SUBCODE_OF_OLDER_NAME = new Map<string, string>(Object.entries(LEGACY_SUBCODES));

/** `undefined` for what is no JSON. */
export const parseJson = (text: string): unknown => {
  // Most bodies of a history are empty, and an exception costs more than the rest of a line.
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
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

/** The first coding that a `Content-Encoding` names; `null` for a body that is sent as it is, `unknown` for an unregistered name. */
export const codingOf = (contentEncoding: string | undefined): string | null => {
  if (contentEncoding === undefined) return null;
  for (const part of contentEncoding.toLowerCase().split(",")) {
    const name = part.trim();
    if (name !== "" && name !== "identity") return CODING.exec(name)?.[1] ?? "unknown";
  }
  return null;
};

/** What JSON may begin with; numbers and words are the whole of it. */
const LIKE_JSON = /^\s*(?:$|[[{"]|(?:-?\d+(?:\.\d+)?|true|false|null)\s*$)/;

/** Whether a body may be the API's, which answers JSON: a page, a sentence or bytes that nobody can read are not. */
export const mayBeJson = (text: string): boolean => LIKE_JSON.test(text);

/**
 * Statuses by which a gateway speaks for itself, whatever its body says: redirects, heads and bodies that are too large, and an
 * upstream that is gone; RFC 9110, and the habits of nginx (49x), AWS (46x) and Cloudflare (52x, 530).
 */
const GATEWAYS = /^(?:3\d\d|408|413|414|431|46\d|49\d|502|504|52\d|530)$/;
/** Here gateways have a sentence in `error` (`Too Many Requests`), and the API a subcode. */
const SHARED = /^(?:403|404|405|429)$/;
const SUBCODE = /^[a-z][a-z0-9_]*$/;

/** Whether words that stand in no list of the status are a gateway's. */
const isGateways = (status: number, said: string, hasDetail: boolean): boolean =>
  GATEWAYS.test(`${status}`) || (SHARED.test(`${status}`) && !hasDetail && !SUBCODE.test(said));

type AboutAnswer = {
  /** As `codingOf` gives it. No call asks for one, and no driver reads what is coded. */
  coding?: string | null;
  /** A success may have a body of any kind: a tile, or a path that is no route. */
  anyBody?: boolean;
};

/**
 * Names an answer. A refusal whose envelope is not the contract's own keeps its subcode (so that a judge can name the
 * wrong envelope); an answer that no part of the contract could have written becomes `edge NNN`.
 */
export const readAnswer = (status: number, text: string, { coding, anyBody }: AboutAnswer = {}): AnswerRead => {
  if (coding !== undefined && coding !== null) {
    return { outcome: `edge ${status}`, subcode: null, envelope: "other", body: undefined };
  }
  const isTooLong = status >= 300 && text.length > REFUSAL_BODY_MOST;
  const body = isTooLong ? undefined : parseJson(text);
  const envelope = envelopeSeen(body, text);
  const fields = isObject(body) ? body : {};
  const said =
    typeof fields.detail === "string" ? fields.detail : typeof fields.error === "string" ? fields.error : null;
  const read = (outcome: string, subcode: string | null): AnswerRead => {
    const answer: AnswerRead = { outcome, subcode, envelope, body };
    if (subcode === "map_load_quota_exceeded") {
      answer.quota = { meter: fields.meter, limit: fields.limit, used: fields.used };
    }
    return answer;
  };
  if (status >= 200 && status < 300) {
    if (anyBody !== true && !mayBeJson(text)) return read(`edge ${status}`, null);
    return "error" in fields ? read(ERROR_IN_BODY, null) : read(`${status}`, null);
  }
  if (said !== null) {
    const subcode = SUBCODE_OF_OLDER_NAME.get(said) ?? said;
    if (REFUSAL_BY_OUTCOME.has(`${status} ${subcode}`)) return read(`${status} ${subcode}`, subcode);
    // A 422 may carry any subcode ("various", item 202); an unknown subcode elsewhere is still the API speaking.
    if (status === 422) return read("422 malformed_body", "malformed_body");
    // 401 and 503 without `detail` may have any body (item 189): what stands in it is no subcode.
    if (REFUSAL_BY_OUTCOME.has(`${status}`) && !("detail" in fields)) {
      return { outcome: `${status}`, subcode: null, envelope: "none", body };
    }
    if (isGateways(status, subcode, "detail" in fields)) return read(`edge ${status}`, null);
    const name = foreignName(subcode);
    return read(`${status} ${name}`, name);
  }
  if (status === 422 && Array.isArray(fields.detail)) return read("422 malformed_body", "malformed_body");
  if (REFUSAL_BY_OUTCOME.has(`${status}`) && (isObject(body) || text.trim() === "")) return read(`${status}`, null);
  // Item 189 gives it any body; a page for people is a gateway's all the same.
  if (status === 401 && !/^\s*</.test(text)) return read("401", null);
  return read(`edge ${status}`, null);
};
