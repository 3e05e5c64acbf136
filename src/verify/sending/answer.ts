/** An answer and its outcome. A subcode is found wherever a deployment puts it; another rule judges the envelope. */
import { type CallContext, countedOutcome, lineOf } from "../../client/api-client.ts";
import type { Received } from "../../client/send-request.ts";
import * as foreignText from "../../contract/foreign-text.ts";
import {
  envelopeSeen,
  isGateways,
  isObject,
  isProblem,
  OUTCOMES,
  outcomeOfStream,
  parseJson,
  SUBCODE_OF_OLDER_NAME,
  subcodeElsewhere,
} from "../../contract/refusals.ts";
import { statedWaitMs } from "../../contract/retry-after.ts";
import { routeOf } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import { mayHaveAnyBody, type Step } from "../../workload/step.ts";
import { type Chunk, isDecoded } from "./answer-bytes.ts";
import type { SentRequest, TestCall } from "./test-call.ts";

type EnvelopeFound = ReturnType<typeof envelopeSeen> | "wrapped";

export type Named = {
  /** Such as `"403 ip_not_allowed"`, `"200"`, `"200 error"`, `"401"`, `"edge 502"`, `"indeterminate"`. */
  outcome: string;
  subcode: string | null;
  envelope: EnvelopeFound;
  /** The subcode is spelt as in an older variant (item 73). */
  legacy: boolean;
};

export type Answer = Named & {
  id: string;
  testCall: TestCall;
  request: SentRequest;
  line: CallLine;
  received: Received;
  status: number | null;
  headers: Readonly<Record<string, string>>;
  text: string;
  body: unknown;
  fields: Readonly<Record<string, unknown>>;
  chunks: readonly Chunk[];
  /** A gateway's answer: it says nothing about the API, whatever its status. */
  foreign: boolean;
  /** A header of the API's own refusals that this one lacks, so that another server gave it. */
  lacks?: string;
  /** Overload, rate limit, outage or no answer: shows nothing about what the call tests. */
  transient: boolean;
};

const KNOWN = new Set<string>(OUTCOMES);

const textIn = (value: unknown, ...names: string[]): string | null => {
  if (!isObject(value)) return null;
  for (const name of names) if (typeof value[name] === "string") return value[name];
  return null;
};

const envelopeOf = (body: unknown, text: string): EnvelopeFound => {
  const seen = envelopeSeen(body, text);
  const inner = isObject(body) ? { detail: body.detail, flat: body.error } : {};
  return (seen === "detail" || seen === "flat") && isObject(inner[seen]) ? "wrapped" : seen;
};

const subcodeIn = (fields: Record<string, unknown>): string | null =>
  textIn(fields, "detail", "error") ??
  textIn(fields.detail, "error", "detail", "code", "subcode") ??
  textIn(fields.error, "code", "error", "detail", "subcode") ??
  textIn(fields, "code", "subcode");

/** Reports whether a text begins like HTML. The API never answers in HTML, so a gateway wrote such a text. */
export const isPage = (text: string): boolean => /^\s*</.test(text);

/** Stands for the subcode that a refusal of the API lacks. */
export const NO_SUBCODE = "no_subcode";

/** Names an answer with a status. `anyBody`: a success may have a body of any kind. */
export const nameAnswer = (status: number, text: string, anyBody = false): Named => {
  const body = parseJson(text);
  const fields = isObject(body) ? body : {};
  const envelope = envelopeOf(body, text);
  const named = (outcome: string, subcode: string | null, legacy = false) => ({ outcome, subcode, envelope, legacy });
  // Item 189 allows any body with 401 and 503. Other bodies that are no JSON may be the API's; HTML is a gateway's.
  if (!anyBody && isPage(text)) return named(`edge ${status}`, null);
  if (status >= 200 && status < 300) return named("error" in fields ? `${status} error` : `${status}`, null);
  const said = subcodeIn(fields);
  const subcode = said === null ? null : (SUBCODE_OF_OLDER_NAME.get(said) ?? said);
  const legacy = said !== null && SUBCODE_OF_OLDER_NAME.has(said);
  if (subcode !== null && KNOWN.has(`${status} ${subcode}`)) return named(`${status} ${subcode}`, subcode, legacy);
  const elsewhere = subcodeElsewhere(status, fields);
  if (elsewhere !== null) return { ...named(`${status} ${elsewhere}`, elsewhere), envelope: "other" };
  if (status === 401 || status === 503) return named(`${status}`, null);
  // Item 202 says "various"; FastAPI's list of errors is a reading of item 203.
  if (status === 422) return named("422 malformed_body", subcode);
  // A 404 or 405 in any words may be the API's answer about a key that is gone.
  const mayBeGateways = status !== 404 && status !== 405;
  const isOfGateway = isProblem(fields) || (!("detail" in fields) && isGateways(status, subcode ?? "", false));
  if (subcode !== null && mayBeGateways && isOfGateway) return named(`edge ${status}`, null);
  // A refusal in {detail} is the API's in any words.
  const isOwn = typeof fields.detail === "string" && !isProblem(fields);
  if (subcode !== null && (isOwn || /^[A-Za-z][\w .-]{0,60}$/.test(subcode)))
    return named(countedOutcome(`${status} ${foreignText.foreignName(subcode)}`), subcode);
  // An empty object is the API's way to refuse without a subcode (401, 503); a gateway says something.
  const isEmpty = isObject(body) && Object.keys(body).length === 0 && status >= 400 && status < 500;
  if (isEmpty && status !== 404 && status !== 405 && !isGateways(status, NO_SUBCODE, false))
    return named(`${status} ${NO_SUBCODE}`, null);
  return named(`edge ${status}`, null);
};

/** A 429 means a used-up allowance or a limit that passes, under whatever name; another rule judges the name. */
const ALLOWANCES = "map_load_quota_exceeded|map_load_hard_stop|tile_access_restricted";
const TRANSIENT = new RegExp(`^(indeterminate|503|429 (?!(${ALLOWANCES})$).*|edge (429|502|503|504))$`);

/** Whether a gateway answered. A bare 500 or 501 is the API's own exception, unless it is an HTML page. */
export const isForeign = (outcome: string, text: string): boolean =>
  /^edge (?!50[01])/.test(outcome) || (outcome.startsWith("edge ") && isPage(text));

const lacksWhatItsRouteAnswers = ({ testCall: { route }, body, fields }: Answer): boolean => {
  if (body === undefined) return true;
  if (route === "-") return false;
  return route === "sdk.sessions" ? fields.session_token === undefined : routeOf(route).stream !== undefined;
};

/** A success without the session, the stream or the JSON that its route answers with, as an edge in maintenance says. */
const isBareSuccess = (answer: Answer): boolean => {
  const { testCall, request, received, outcome } = answer;
  return (
    /^20[0-3]$/.test(outcome) &&
    lacksWhatItsRouteAnswers(answer) &&
    received.seen === null &&
    !received.aborted &&
    !testCall.route.startsWith("keys.") &&
    !mayHaveAnyBody({ route: testCall.route, method: request.method as Step["method"] })
  );
};

/**
 * Whether another try may bring another answer: an edge may answer one call in ten with a page, or with a JSON 500 that
 * the API could have written as well. What still comes is judged.
 */
export const isStray = (answer: Answer): boolean => {
  const { foreign, transient, status } = answer;
  return !transient && (foreign || (status !== null && status >= 500) || isBareSuccess(answer));
};

export const isTransient = (outcome: string): boolean => TRANSIENT.test(outcome);

/** 2xx, including a failure reported under 200. */
export const isAdmitted = ({ outcome }: Pick<Answer, "outcome">): boolean => /^2\d\d/.test(outcome);

/** Headers by which caches say whether an answer is their copy: Cache-Status (RFC 9211), nginx, Varnish, CDNs. */
const CACHE_HEADER = /^(?:cache-status|(?:cf|x|x-[a-z]+)-cache(?:-status)?)$/;
const IS_COPY = /(?:^|[^a-z])hit(?![a-z-])/i;

/**
 * How an answer shows that it came out of a cache; `null` if it does not. `Age` names a cache (RFC 9111, section 5.1); at 0
 * some caches mean the API's answer, and others their copy of it. A copy without such a header may still have the id of the
 * call that it was made for.
 */
export const cacheInWords = ({ id, request, headers }: Pick<Answer, "id" | "request" | "headers">): string | null => {
  const { age = "", "x-request-id": echoed = "" } = headers;
  const hit = Object.keys(headers).find((name) => CACHE_HEADER.test(name) && IS_COPY.test(headers[name] ?? ""));
  if (hit !== undefined) return `out of a cache in between (${foreignText.foreignHeaderName(hit)}: hit)`;
  if (/^\d{1,10}$/.test(age)) return `${Number(age) > 0 ? "out of" : "through"} a cache in between (Age: ${age})`;
  const isOfThisRun = echoed.startsWith(id.slice(0, id.lastIndexOf("-") + 1));
  const isAnothers = isOfThisRun && echoed !== request.headers["x-request-id"];
  return isAnothers ? "with the X-Request-Id of another call, as a copy out of a cache has" : null;
};

/** A success where a refusal is due is told with its body, because an edge's page may be behind it. */
export const successInWords = ({ received, text, body }: Answer): string => {
  if (received.seen !== null) return "";
  return text === "" ? " without a body" : ` with the body ${foreignText.shapeOfBody(text, body)}`;
};

export const inWords = (answer: Answer): string => {
  const { outcome, text, body, status, received, headers, foreign, lacks } = answer;
  if (outcome === "indeterminate")
    return `no whole answer (${foreignText.foreignError(received.error ?? received.ended)})`;
  const shape = text === "" || /^2\d\d/.test(outcome) ? "" : ` with the body ${foreignText.shapeOfBody(text, body)}`;
  const { location } = headers;
  const to = location !== undefined && /^edge 3/.test(outcome) ? ` to ${foreignText.foreignAddress(location)}` : "";
  const either = !foreign && status !== null && status >= 500 && status !== 503 ? " (an edge or the API itself)" : "";
  const without =
    lacks === undefined ? "" : `, without the header ${foreignText.foreignHeaderName(lacks)} of the API's own refusals`;
  const cached = cacheInWords(answer);
  return outcome + to + shape + without + either + (cached === null ? "" : `, ${cached}`);
};

export const retryAfterMs = ({ headers }: Answer) => statedWaitMs(headers["retry-after"] ?? "", Date.now());

/** Whether the status calls the body malformed: the specified 422, or the usual 400. */
export const isMalformed = ({ status }: Answer): boolean => status === 422 || status === 400;

/** Names a refusal's wording; one worded like that of broken JSON calls the body malformed (items 202-203). */
export const wordingOf = ({ status, fields, subcode }: Answer): string => {
  if (Array.isArray(fields.detail)) return `${status} a list of errors`;
  if (subcode === null) return `${status} no word`;
  return /^[\w.-]+$/.test(subcode) ? `${status} ${subcode}` : `${status} a sentence`;
};

export const reasonIn = ({ fields }: Answer, ...without: readonly string[]): string =>
  without.reduce(
    (text, word) => text.replaceAll(word, "..."),
    JSON.stringify([fields.detail, fields.error, fields.errors]),
  );

const headersOf = ({ headers }: Received): Record<string, string> => {
  const given = Object.entries(headers).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name.toLowerCase(), [value].flat().join(", ").trim()]));
};

const UNANSWERED: Named = { outcome: "indeterminate", subcode: null, envelope: "none", legacy: false };

/** An incomplete answer is indeterminate, unless we left the stream ourselves. */
const nameOf = ({ status, ended, seen, aborted, text }: Received, anyBody: boolean): Named => {
  if (status === null) return UNANSWERED;
  if (seen !== null) return { ...UNANSWERED, outcome: outcomeOfStream(status, { ended }) };
  if (!aborted && ended !== "eof" && ended !== "refused") return UNANSWERED;
  return nameAnswer(status, text, anyBody);
};

/** How an answer looks, whoever gave it: status, media type, members of its body. */
export const lookOf = ({ status, headers, body }: Answer): string => {
  const type = (headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase();
  return `${status} ${type} ${isObject(body) ? Object.keys(body).sort().join(" ") : typeof body}`;
};

/** The call's history line, without facts and envelopes that the invariants must not judge. */
const lineFor = ({ open }: TestCall, { outcome, envelope }: Named, { facts, ...bare }: CallLine): CallLine => {
  const isPlain = (outcome === "401" || outcome === "503") && envelope === "flat";
  const line = isPlain ? { ...bare, outcome, envelope: "none" as const } : bare;
  return open === true || facts === undefined ? line : { ...line, facts };
};

type Called = Pick<Answer, "testCall" | "request" | "received" | "chunks"> & { step: Step; context: CallContext };

export const answerOfCall = ({ step, context, errorUs, ...called }: Called & { errorUs: number }): Answer => {
  const { testCall, request, received } = called;
  const { status, text } = received;
  const named = nameOf(received, mayHaveAnyBody({ route: testCall.route, method: request.method as Step["method"] }));
  const body = parseJson(text);
  // The line describes the decoded answer.
  const { "content-encoding": coding, ...headers } = received.headers;
  const plain = isDecoded({ "content-encoding": coding }) ? { ...received, headers } : received;
  return {
    ...called,
    ...named,
    ...{ id: context.id, status, text, body },
    line: lineFor(testCall, named, lineOf(step, plain, context, errorUs)),
    headers: headersOf(received),
    fields: isObject(body) ? body : {},
    foreign: isForeign(named.outcome, text),
    transient: isTransient(named.outcome),
  };
};
