/**
 * How the second deployment reads well-formed bodies and queries: the readings that the specification leaves open, and the
 * members that a defect refuses or ignores.
 */
import type { Names } from "./names.ts";
import type { Reply } from "./replies.ts";

type Fields = Readonly<Record<string, unknown>>;

const refusal = (detail: unknown): Reply => ({ status: 422, body: { detail } });

/** The product as this deployment reads it. */
export const productRead = (product: unknown, { is }: Names): unknown => {
  if (typeof product !== "string") return product;
  if (is("takes-capitals")) return product.toLowerCase();
  return is("trims-products") ? product.trim() : product;
};

/** Refuses members of the exchange's body other than the product. */
export const memberRefusal = (body: Fields, { is, has }: Names): Reply | null => {
  const others = Object.keys(body).filter((name) => name !== "product");
  if (is("no-other-members") && others.length > 0) return refusal("malformed_body");
  if (!("map_id" in body)) return null;
  if (is("looks-maps-up")) return refusal("unknown_map");
  if (is("maps-are-numbered") && !/^\d+$/.test(String(body.map_id))) return refusal("malformed_body");
  return has("refuses-map-id") ? refusal("malformed_body") : null;
};

const poiRefusal = (query: URLSearchParams, { is, has }: Names): Reply | null => {
  // Takes millionths of a degree; a query is no body, so 422 is not its answer.
  if (is("numbers-its-places") && !/^-?\d+$/.test(query.get("lat") ?? ""))
    return { ...refusal("bad_query"), status: 400 };
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
  // Has its own list of sources and refuses others.
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

const CONTROL_OPTIONS = ["location", "map_zoom", "lang", "session_id", "auto_actions"] as const;

const controlRefusal = (body: Fields, { is, has }: Names): Reply | null => {
  const refuses = (name: (typeof CONTROL_OPTIONS)[number]): boolean => name in body && has(`control-refuses-${name}`);
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

/** Refuses a body or query whose JSON is valid. */
export const fieldRefusal = (route: string, url: string, body: Fields, names: Names): Reply | null => {
  if (route === "POST /chat/control/stream") return controlRefusal(body, names);
  if (route === "GET /retrieval/poi/enrich") return poiRefusal(new URL(url, "http://api").searchParams, names);
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
