/**
 * Input on which some deployments fail: odd characters, headers, paths and values. Defects that answer 500 to such input
 * belong in one of the tables; the answers of a strict deployment to the same input are in `STRICT`.
 */
import type { IncomingMessage } from "node:http";
import { credentialIn } from "./credentials.ts";
import { HANGS_UP, type Reply, SERVER_ERROR } from "./replies.ts";
import type { ApiState } from "./state.ts";

type Fields = Readonly<Record<string, unknown>>;

const isRecord = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** By defect: whether the deployment fails on an input. */
type Stumbles<T> = Readonly<Record<string, (what: T) => boolean>>;
const falls = <T>(stumbles: Stumbles<T>, { has }: ApiState, what: T): boolean =>
  Object.entries(stumbles).some(([name, minds]) => has(name) && minds(what));

/** Bodies with one odd value, matched by their text, by the defect that fails on them. */
const RAW_STUMBLES: Stumbles<string> = {
  "500-on-long-bodies": (text) => text.length > 1 << 20,
  "500-on-long-texts": (text) => text.length > 20_000 && text.length < 1 << 20,
  "500-on-great-numbers": (text) => /: (1e400|9{20})/.test(text),
  "500-on-bad-utf8": (text) => text.includes("\ufffd"),
  "500-on-half-pairs": (text) => text.includes("\\ud800"),
  "500-on-null-characters": (text) => text.includes("\\u0000"),
  "500-on-proto": (text) => text.includes('"__proto__"'),
};

const recordIn = (text: string): Fields => {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
};

/** `path`: below the base URL, with its query. */
type Call = {
  route: string;
  path: string;
  text: string;
  body: Fields;
  heads: Readonly<Record<string, readonly string[] | undefined>>;
};
type Message = { role?: unknown; content?: unknown };
const messagesIn = (body: Fields): Message[] => (Array.isArray(body.messages) ? body.messages.filter(isRecord) : []);
const placesIn = (body: Fields): unknown[] => (Array.isArray(body.places) ? body.places : []);

/** Calls with one odd feature, by the defect that fails on it. */
const STUMBLES: Stumbles<Call> = {
  "500-on-odd-fields": ({ route, body }) =>
    route === "POST /chat/control/stream" &&
    ["location", "lang", "session_id", "app_snapshot"].some((name) => /^[\d[]/.test(JSON.stringify(body[name]) ?? "")),
  "500-on-odd-messages": ({ body }) => Array.isArray(body.messages) && body.messages.includes(null),
  "500-on-odd-places": ({ route, body }) =>
    route === "POST /chat/control/route" && "places" in body && !Array.isArray(body.places),
  "500-on-odd-datasets": ({ route, body }) => route === "POST /design/analyze" && Array.isArray(body.dataset),
  "500-on-odd-rows": ({ route, body }) => {
    const rows = isRecord(body.dataset) ? body.dataset.sample_rows : undefined;
    return route === "POST /design/analyze" && rows !== undefined && !(Array.isArray(rows) && rows.every(isRecord));
  },
  "500-off-the-earth": ({ path }) => Math.abs(Number(/[?&]lat=([^&]*)/.exec(path)?.[1])) > 90,
  "500-on-odd-tiles": ({ path }) => /^\/tiles\//.test(path) && !/^\/tiles\/\d{1,9}\/\d{1,9}\/\d{1,9}$/.test(path),
  "500-on-unknown-languages": ({ path }) => /[?&]lang=(?!en|de|fr|es)\w/i.test(path),
  "500-on-empty-options": ({ path }) => /[?&]source=(&|$)/.test(path),
  "500-on-unknown-roles": ({ body }) => messagesIn(body).some(({ role }) => role === "tool"),
  "500-on-blank-messages": ({ body }) => messagesIn(body).some(({ content }) => content === ""),
  "500-on-many-messages": ({ body }) => messagesIn(body).length > 100,
  "500-on-long-session-ids": ({ body }) => typeof body.session_id === "string" && body.session_id.length > 255,
  "500-on-odd-session-ids": ({ body }) => typeof body.session_id === "string" && body.session_id.startsWith("../"),
  "500-on-empty-words": ({ body }) => body.raw_query === "",
  "500-on-many-places": ({ body }) => placesIn(body).length > 500,
  "500-on-one-spot": ({ body }) => {
    const [from, to] = placesIn(body);
    return isRecord(from) && isRecord(to) && from.lat !== undefined && from.lat === to.lat && from.lon === to.lon;
  },
  "500-on-no-places": ({ body }) => Array.isArray(body.places) && body.places.length === 0,
  "500-on-odd-options": ({ route, body }) =>
    route === "POST /design/analyze" && body.options !== undefined && !isRecord(body.options),
  "500-on-unknown-callers": ({ heads }) => heads["x-forwarded-for"]?.[0]?.startsWith("unknown") === true,
  "500-on-odd-encodings": ({ heads }) => heads["accept-encoding"]?.[0]?.startsWith("nonsense") === true,
  "500-on-unknown-codings": ({ heads }) => heads["content-encoding"]?.[0] === "nonsense",
  "500-on-bodies-that-do-not-inflate": ({ heads }) => heads["content-encoding"]?.[0] === "gzip",
  "500-on-odd-conditions": ({ heads }) => heads["if-modified-since"]?.[0] === "yesterday",
  "500-on-two-credentials": ({ heads }) => (heads.authorization?.length ?? 0) > 1,
  "500-on-odd-paths": ({ path }) => path.includes("%2f"),
  "500-on-long-paths": ({ path }) => /^\/design\/.{2000}/.test(path),
  "500-on-queries-of-posts": ({ route, path }) => route.startsWith("POST") && path.includes("?"),
  "500-on-more-text": ({ text }) => text.endsWith("more"),
  "500-on-a-byte-order-mark": ({ text }) => text.startsWith("\ufeff"),
  "500-on-nan": ({ text }) => /: NaN[,}]/.test(text),
  "500-on-listed-products": ({ body }) => typeof body.product === "object" && body.product !== null,
  "500-on-names-of-objects": ({ body }) => body.product === "constructor",
  "500-on-the-same-twice": ({ text }) => text.split('"product"').length > 2,
};

/** How a strict deployment answers the same calls, before authentication. */
const STRICT: readonly (readonly [names: readonly string[], status: number])[] = [
  [["500-on-unknown-callers", "500-on-two-credentials", "500-on-odd-paths"], 400],
  [["500-on-odd-conditions"], 304],
  [["500-on-odd-encodings"], 406],
  [["500-on-long-paths"], 414],
  [["500-on-many-places", "500-on-many-messages"], 413],
  [Object.keys(STUMBLES).filter((name) => /empty|unknown|odd-se|queries|text|byte|nan|same/.test(name)), 422],
];

const strictReply = (call: Call): Reply | null => {
  const found = STRICT.find(([names]) => names.some((name) => STUMBLES[name]?.(call) === true));
  return found === undefined
    ? null
    : { status: found[1], ...(found[1] === 422 ? { body: { detail: "malformed" } } : {}) };
};

/** Answers a credential with characters that no key has. */
const foreignLettersReply = ({ is, has, detail }: ApiState): Reply | null => {
  if (has("500-on-foreign-letters")) return SERVER_ERROR;
  if (has("403-on-foreign-letters")) return detail(403, "insufficient_scope");
  if (is("400-on-foreign-letters")) return { status: 400, text: "Bad Request" };
  return is("hangs-up-on-foreign-letters") ? HANGS_UP : null;
};

const isJson = (segment: string): boolean => {
  if (/[^\w-]/.test(segment)) return false;
  try {
    JSON.parse(Buffer.from(segment, "base64url").toString());
    return true;
  } catch {
    return false;
  }
};

/** Session tokens at which a token library may throw, by the defect that does not catch the error. */
const SESSION_STUMBLES: Stumbles<readonly string[]> = {
  "500-on-sessions-without-dots": (parts) => parts.length !== 3,
  "500-on-sessions-of-bad-base64": (parts) => parts.some((part) => /[^\w-]/.test(part)),
  "500-on-sessions-without-json": (parts) => parts.slice(0, 2).some((part) => !isJson(part)),
  "500-on-sessions-without-claims": (parts) => parts[1] === Buffer.from("null").toString("base64url"),
};

const unparsableReply = (api: ApiState, req: IncomingMessage): Reply | null => {
  const token = /^svc_sess_[^_]*_(.*)$/.exec(credentialIn(api, req) ?? "")?.[1];
  if (token === undefined) return null;
  return falls(SESSION_STUMBLES, api, token.split(".")) ? SERVER_ERROR : null;
};

const rawReply = (api: ApiState, req: IncomingMessage, text: string): Reply | null => {
  if (api.has("500-on-escapes") && (req.url ?? "").includes("%zz")) return SERVER_ERROR;
  if (falls(RAW_STUMBLES, api, text)) return SERVER_ERROR;
  const foreign = /[^\x20-\x7e]/.test(credentialIn(api, req) ?? "") ? foreignLettersReply(api) : null;
  if (foreign !== null) return foreign;
  const unparsable = unparsableReply(api, req);
  if (unparsable !== null) return unparsable;
  const alienCharset = /charset=(?!utf-8)/i.test(req.headers["content-type"] ?? "");
  return api.has("500-on-charsets") && alienCharset ? SERVER_ERROR : null;
};

export const oddInputReply = (api: ApiState, req: IncomingMessage, route: string, text: string): Reply | null => {
  const { is, detail } = api;
  const raw = rawReply(api, req, text);
  if (raw !== null) return raw;
  if (is("404-for-nobody") && credentialIn(api, req) === null) return detail(404, "Not Found");
  const path = (req.url ?? "").replace(/^\/v1/, "");
  const call = { route, path, text, body: recordIn(text), heads: req.headersDistinct };
  if (falls(STUMBLES, api, call)) return SERVER_ERROR;
  return is("strict") ? strictReply(call) : null;
};
