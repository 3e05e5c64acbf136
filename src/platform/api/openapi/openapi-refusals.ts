/** The description of refusals: which of them each route can answer with, and the shape of each, from the same catalogue. */
import { type AnyRefusalName, refusalOf } from "../../../contract/refusals.ts";
import { type RouteName, routeOf } from "../../../contract/routes.ts";
import { REQUESTS } from "../../schemas.ts";

export type Json = Record<string, unknown>;

/** What the specification leaves open and this platform chose. */
export const CHOICE = { "x-harness-choice": true };

const AT_RUNTIME: readonly AnyRefusalName[] = [
  "b2b_overloaded",
  "unauthenticated",
  "key_service_unavailable",
  "publishable_requires_session",
  "server_key_in_browser",
  "ip_not_allowed",
  "session_origin_mismatch",
  "insufficient_scope",
  "product_not_allowed",
  "tier_capability_not_allowed",
  "org_overloaded",
  "limiter_unavailable",
  "rate_limited",
];
const AT_EXCHANGE: readonly AnyRefusalName[] = [
  "b2b_overloaded",
  "unauthenticated",
  "key_service_unavailable",
  "sessions_not_configured",
  "sessions_disabled",
  "publishable_key_required",
  "origin_required",
  "session_origin_mismatch",
  "malformed_body",
  "insufficient_scope",
  "product_not_allowed",
  "tier_capability_not_allowed",
  "org_overloaded",
  "limiter_unavailable",
  "rate_limited",
  "map_load_quota_exceeded",
  "map_load_hard_stop",
];
const WHEN_WIDENING: readonly AnyRefusalName[] = [
  "plan_required",
  "unknown_scope",
  "unknown_product",
  "publishable_live_requires_origins",
  "vendor_scope_requires_acknowledgement",
  "tier_capability_not_allowed",
];
const MANAGEMENT: readonly AnyRefusalName[] = ["unauthenticated", "forbidden", "key_service_unavailable"];

/** Every refusal that a route can answer with, in the order of its checks. */
export const refusalsOf = (name: RouteName): AnyRefusalName[] => {
  const route = routeOf(name);
  const request = REQUESTS[name];
  const body: AnyRefusalName[] = request === null ? [] : ["malformed_body"];
  if (request?.in === "body") body.push("payload_too_large");
  if (route.surface === "exchange") return [...AT_EXCHANGE, "payload_too_large"];
  if (name === "keys.create") {
    return [...MANAGEMENT, ...body, ...WHEN_WIDENING, "free_plan_publishable_only", "key_limit_reached"];
  }
  if (name === "keys.update") return [...MANAGEMENT, ...body, ...WHEN_WIDENING, "not_found"];
  if (name === "keys.delete") return [...MANAGEMENT, "not_found"];
  const own = AT_RUNTIME.filter((refusal) => route.tile !== true || refusal !== "session_origin_mismatch");
  if (route.tile === true) own.push("tile_access_restricted");
  if (route.meter === "map_loads") own.push("map_load_quota_exceeded", "map_load_hard_stop");
  if (name === "maps.tiles") own.push("not_found");
  return [...own, ...body];
};

const envelopeSchema = (name: AnyRefusalName): Json => {
  const { envelope, subcode } = refusalOf(name);
  if (envelope === "none") return { type: "object", properties: { detail: false }, ...CHOICE };
  const word = { const: subcode };
  if (envelope === "detail") {
    const errors = name === "malformed_body" ? { errors: { type: "array", items: { type: "object" }, ...CHOICE } } : {};
    return { type: "object", required: ["detail"], properties: { detail: word, ...errors } };
  }
  if (name !== "map_load_quota_exceeded") {
    return { type: "object", required: ["error"], properties: { error: word, detail: false } };
  }
  return {
    type: "object",
    required: ["error", "meter", "limit", "used"],
    properties: {
      error: word,
      meter: { const: "map_loads" },
      limit: { type: "integer" },
      used: { type: "integer" },
      detail: false,
    },
  };
};

const header = (description: string, schema: Json): Json => ({ description, schema });
export const REQUEST_ID = { "X-Request-Id": header("The request's, or one made up.", { type: "string" }) };

const refusalResponse = (status: number, names: readonly AnyRefusalName[]): Json => {
  const schemas = names.map(envelopeSchema);
  const retries = names.some((name) => refusalOf(name).retryAfterS !== null);
  return {
    description: names.map((name) => refusalOf(name).subcode ?? "no detail").join(", "),
    headers: {
      ...REQUEST_ID,
      ...(retries ? { "Retry-After": header("Whole seconds.", { type: "integer", minimum: 1 }) } : {}),
      ...(status === 401 ? { "WWW-Authenticate": header("The challenge.", { type: "string" }) } : {}),
    },
    content: { "application/json": { schema: schemas.length === 1 ? schemas[0] : { anyOf: schemas } } },
  };
};

export const refusalResponses = (name: RouteName): Json => {
  const byStatus = new Map<number, AnyRefusalName[]>();
  for (const refusal of refusalsOf(name)) {
    const { status } = refusalOf(refusal);
    byStatus.set(status, [...(byStatus.get(status) ?? []), refusal]);
  }
  return Object.fromEntries([...byStatus].map(([status, names]) => [status, refusalResponse(status, names)]));
};
