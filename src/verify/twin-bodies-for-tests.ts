/**
 * What the second deployment of the tests (twin-for-tests.ts) makes of bodies and queries: the readings that the specification
 * leaves open, and the defects. Its answers are those of its other half, so that both speak alike.
 */
type Reply = { status: number; body?: unknown; text?: string };
type Names = { is(variant: string): boolean; has(defect: string): boolean };
type Fields = Readonly<Record<string, unknown>>;

const isRecord = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const refusal = (detail: unknown): Reply => ({ status: 422, body: { detail } });

const read = (text: string): Fields => {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
};

/** Values of an odd type, by the defect that stumbles over them; `path` is below the base, with its query. */
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

const STUMBLES: Readonly<Record<string, (call: Call) => boolean>> = {
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

/** What a strict deployment says to the same, before it asks who calls. */
const STRICT: readonly (readonly [names: readonly string[], status: number])[] = [
  [["500-on-unknown-callers", "500-on-two-credentials", "500-on-odd-paths"], 400],
  [["500-on-odd-conditions"], 304],
  [["500-on-odd-encodings"], 406],
  [["500-on-long-paths"], 414],
  [["500-on-many-places", "500-on-many-messages"], 413],
  [Object.keys(STUMBLES).filter((name) => /empty|unknown|odd-se|queries|text|byte|nan|same/.test(name)), 422],
];

export const strictReply = (call: Omit<Call, "body">): Reply | null => {
  const whole = { ...call, body: read(call.text) };
  const found = STRICT.find(([names]) => names.some((name) => STUMBLES[name]?.(whole) === true));
  return found === undefined ? null : { status: found[1], ...(found[1] === 422 ? refusal("malformed") : {}) };
};

export const stumbles = (defects: readonly string[], call: Omit<Call, "body">): boolean => {
  const whole = { ...call, body: read(call.text) };
  return defects.some((name) => STUMBLES[name]?.(whole) === true);
};

/** The product as such a deployment reads it. */
export const productRead = (product: unknown, { has }: Names): unknown => {
  if (typeof product !== "string") return product;
  if (has("takes-capitals")) return product.toLowerCase();
  return has("trims-products") ? product.trim() : product;
};

/** Members of the exchange's body beside the product. */
export const memberRefusal = (body: Fields, { is, has }: Names): Reply | null => {
  const others = Object.keys(body).filter((name) => name !== "product");
  if (is("no-other-members") && others.length > 0) return refusal("malformed_body");
  if (!("map_id" in body)) return null;
  if (is("looks-maps-up")) return refusal("unknown_map");
  if (is("maps-are-numbered") && !/^\d+$/.test(String(body.map_id))) return refusal("malformed_body");
  return has("refuses-map-id") ? refusal("malformed_body") : null;
};

const poiRefusal = (query: URLSearchParams, { is, has }: Names): Reply | null => {
  const lang = query.get("lang");
  if (has("poi-needs-a-language") && lang === null) return refusal("malformed_query");
  const options = ["lang", "source", "id", "poi_context"].filter((name) => query.has(name));
  if (has("poi-refuses-options") && options.length > 0) return refusal("malformed_query");
  if (has("poi-refuses-lang") && lang !== null) return refusal("malformed_query");
  if (has("poi-refuses-source") && query.has("source")) return refusal("malformed_query");
  const known = ["lat", "lon", "name", "category", "lang", "id", "poi_context"];
  const alien = [...query.keys()].find((name) => !known.includes(name));
  if (has("poi-knows-no-source") && alien !== undefined) return refusal(`no parameter ${alien}`);
  if (has("poi-knows-no-source") && query.get("lat") === "north") return refusal("lat is no number");
  // A list of sources of its own, and strict about what is not listed.
  if (is("sources-are-listed") && query.has("source")) return refusal("no such source");
  if (is("sources-are-listed") && alien !== undefined) return refusal(`no parameter ${alien}`);
  const strange = query.has("source") || (lang !== null && lang !== "de");
  return is("few-words-for-pois") && strange ? refusal("malformed_query") : null;
};

const summaryRefusal = (body: Fields, { is, has }: Names): Reply | null => {
  const building = body.type === "building";
  if (has("summary-knows-no-buildings") && body.type !== "poi") return refusal(`no type ${body.type}`);
  if (is("buildings-need-a-height") && building && body.height === undefined) return refusal("malformed_body");
  if (!is("buildings-need-a-number")) return null;
  if (building && body.number === undefined) return refusal([{ loc: ["body", "number"], msg: "field required" }]);
  return building || body.type === "poi" ? null : refusal([{ loc: ["body", "type"], msg: "no such type" }]);
};

const CONTROL_OPTIONS = ["location", "map_zoom", "lang", "session_id", "app_snapshot", "auto_actions"];

const controlRefusal = (body: Fields, { is, has }: Names): Reply | null => {
  const refuses = (name: string): boolean => name in body && has(`control-refuses-${name}`);
  if (CONTROL_OPTIONS.some(refuses)) return refusal("malformed_body");
  if (has("control-needs-a-zoom") && body.map_zoom === undefined) return refusal("malformed_body");
  if (!is("few-types-for-control")) return null;
  const { location, auto_actions: actions, app_snapshot: shot, session_id: session, lang } = body;
  const isOdd =
    (location !== undefined && !Array.isArray(location)) ||
    (actions !== undefined && typeof actions !== "string") ||
    (session !== undefined && typeof session !== "number") ||
    (lang !== undefined && lang !== "de" && lang !== "en") ||
    shot !== undefined;
  return isOdd ? refusal("malformed_body") : null;
};

/** A body or query that is refused although its JSON is right. */
export const fieldRefusal = (route: string, url: string, body: Fields, names: Names): Reply | null => {
  if (route === "POST /chat/control/stream") return controlRefusal(body, names);
  if (route === "GET /retrieval/poi/enrich") return poiRefusal(new URL(url, "http://twin").searchParams, names);
  return route === "POST /chat/summary/stream" ? summaryRefusal(body, names) : null;
};

export const routeReply = (body: Fields, { is, has }: Names): Reply => {
  const fail = (message: string): Reply => {
    if (has("route-failure-as-400")) return { status: 400, body: { error: message } };
    if (has("route-failure-as-422")) return { status: 422, body: { error: message } };
    if (has("route-failure-as-404")) return { status: 404, body: { detail: "no_route" } };
    if (has("route-failure-in-its-own-word")) return refusal("too_few_places");
    if (has("route-failure-as-detail")) return { status: 200, body: { detail: message } };
    if (has("route-failure-without-body")) return { status: 204 };
    if (has("route-failure-as-no-route")) return { status: 200, body: { legs: [] } };
    return { status: 200, body: { error: has("route-error-object") ? { message } : message } };
  };
  if (!Array.isArray(body.places) || body.places.length < 2) {
    const malformed = is("one-place-is-malformed") || has("one-place-is-malformed");
    return malformed ? refusal("malformed_body") : fail("too few places");
  }
  if (body.profile !== "walking")
    return is("profiles-are-listed") ? refusal("unknown_profile") : fail("unknown profile");
  return { status: 200, body: { legs: [1], ...(is("null-error") ? { error: null } : {}) } };
};
