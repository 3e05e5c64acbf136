/** `/openapi.json`: one schema per event of a stream (items 92-95, 104-105, 166-176); names may be added (item 15). */
import { type TSchema, Type } from "typebox";
import { type AnyRefusalName, refusalOf } from "../../contract/refusals.ts";
import { ROUTE_NAMES, type Route, type RouteName, routeOf, type Stream, type Surface } from "../../contract/routes.ts";
import { ERROR_EVENT, eventNamesOf, VOCABULARIES } from "../../contract/streams.ts";
import { placeOf, SHAPES } from "../schemas.ts";

type Json = Record<string, unknown>;
const CHOICE = { "x-harness-choice": true };
const Whole = Type.Integer({ minimum: 0 });

/** Fields of events beside `type`, which repeats the name. The specification shows only those of `error` (item 167). */
const FIELDS: Readonly<Record<string, Record<string, TSchema>>> = {
  token: { text: Type.String() },
  action: { action: Type.String(), args: Type.Object({}) },
  quota: { meter: Type.Literal("chat_turns"), limit: Whole, used: Whole, remaining: Whole },
  done: { session_id: Type.String() },
  summary_delta: { delta: Type.String() },
  summary_done: { summary_type: Type.Enum(["poi", "building"]) },
  chunk: { content: Type.String() },
  end: {},
  [ERROR_EVENT]: { message: Type.String(), code: Type.String({ minLength: 1 }), partial_text: Type.String() },
};

const eventData = (name: string): TSchema =>
  Type.Object({ type: Type.Literal(name), ...FIELDS[name] }, name === ERROR_EVENT ? {} : CHOICE);

/** In OpenAPI 3.1 the schema of an event stream is that of one event: its name, and its data as text. */
const streamContent = (kind: Stream): Json => {
  const names = [...eventNamesOf(kind), ERROR_EVENT];
  const known = names.map((name) => ({
    properties: {
      event: { const: name },
      data: { type: "string", contentMediaType: "application/json", contentSchema: eventData(name) },
    },
  }));
  return {
    "text/event-stream": {
      schema: {
        type: "object",
        description: `${VOCABULARIES[kind].done} and ${ERROR_EVENT} end the stream.`,
        required: ["event", "data"],
        properties: { event: { type: "string" }, data: { type: "string" } },
        anyOf: [...known, { properties: { event: { not: { enum: names } } } }],
      },
    },
  };
};

type Names = readonly AnyRefusalName[];
const FRONT: Names = ["b2b_overloaded", "unauthenticated", "key_service_unavailable"];
const ADMISSION: Names = ["insufficient_scope", "product_not_allowed", "tier_capability_not_allowed"];
const LIMITS: Names = ["org_overloaded", "limiter_unavailable", "rate_limited"];
const METERED: Names = ["map_load_quota_exceeded", "map_load_hard_stop"];
const EXCHANGE: Names = ["sessions_not_configured", "sessions_disabled", "publishable_key_required", "origin_required"];
const RUNTIME: Names = ["publishable_requires_session", "server_key_in_browser", "ip_not_allowed"];
const WHEN_WIDENING: Names = [
  ...(["plan_required", "unknown_scope", "unknown_product", "publishable_live_requires_origins"] as const),
  ...(["vendor_scope_requires_acknowledgement", "tier_capability_not_allowed"] as const),
];
const MANAGEMENT: Names = ["unauthenticated", "forbidden", "key_service_unavailable"];

export const refusalsOf = (name: RouteName): AnyRefusalName[] => {
  const { surface, tile, meter } = routeOf(name);
  const place = placeOf(name);
  const tooLarge: Names = place === "body" ? ["payload_too_large"] : [];
  const body: Names = place === null ? [] : ["malformed_body", ...tooLarge];
  if (surface === "exchange") {
    return [...FRONT, ...EXCHANGE, "session_origin_mismatch", ...body, ...ADMISSION, ...LIMITS, ...METERED];
  }
  if (name === "keys.create") {
    return [...MANAGEMENT, ...body, ...WHEN_WIDENING, "free_plan_publishable_only", "key_limit_reached"];
  }
  if (surface === "management") {
    return [...MANAGEMENT, ...body, ...(name === "keys.update" ? WHEN_WIDENING : []), "not_found"];
  }
  const origin = tile === true ? "tile_access_restricted" : "session_origin_mismatch";
  const metered = meter === "map_loads" ? METERED : [];
  const unknown: Names = name === "maps.tiles" ? ["not_found"] : [];
  return [...FRONT, ...RUNTIME, origin, ...ADMISSION, ...LIMITS, ...metered, ...unknown, ...body];
};

const envelopeSchema = (name: AnyRefusalName): Json => {
  const { envelope, subcode } = refusalOf(name);
  if (envelope === "none") return { type: "object", properties: { detail: false }, ...CHOICE };
  const fields: Json = { [envelope === "flat" ? "error" : "detail"]: { const: subcode } };
  if (name === "map_load_quota_exceeded") {
    Object.assign(fields, { meter: { const: "map_loads" }, limit: { type: "integer" }, used: { type: "integer" } });
  }
  const required = Object.keys(fields);
  if (envelope === "flat") fields.detail = false;
  if (name === "malformed_body") fields.errors = { type: "array", items: { type: "object" }, ...CHOICE };
  return { type: "object", required, properties: fields };
};

const header = (description: string, schema: Json): Json => ({ description, schema });
const REQUEST_ID = { "X-Request-Id": header("The request's, or one made up.", { type: "string" }) };

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

const responsesOf = (name: RouteName, stream: Stream | undefined): Json => {
  const { summary, status = 200, answer } = SHAPES[name];
  const json = answer && { "application/json": { schema: answer } };
  const success = { description: summary, headers: REQUEST_ID, content: stream ? streamContent(stream) : json };
  const byStatus = Map.groupBy(refusalsOf(name), (refusal) => refusalOf(refusal).status);
  const refusals = [...byStatus].map(([refused, names]) => [refused, refusalResponse(refused, names)]);
  return { [status]: success, ...Object.fromEntries(refusals) };
};

const BEARER = { type: "http", scheme: "bearer" };
const API_KEY = { type: "apiKey", in: "header", name: "X-Api-Key", description: "The same." };
/** The credentials of each surface; an API key may be sent in either of two headers (item 143). */
const SECURITY: Readonly<Record<Surface, Json[]>> = {
  exchange: [{ publishable: [] }, { publishableApiKey: [] }],
  runtime: [{ bearer: [] }, { apiKey: [] }],
  management: [{ admin: [] }],
};

const parameter = (name: string, place: "header" | "query" | "path", schema: unknown, required = true): Json => ({
  ...{ name, in: place, required, schema },
});

const parametersOf = (name: RouteName, { surface, path }: Route): Json[] => {
  // Item 71. On other surfaces only a call from a browser has `Origin`.
  if (surface === "exchange") {
    return [{ ...parameter("Origin", "header", { type: "string" }), description: "One of the key's allowed origins." }];
  }
  const place = placeOf(name);
  const { properties = {}, required = [] } = { ...SHAPES[name].request } as { properties?: Json; required?: string[] };
  if (place === "query") {
    return Object.entries(properties).map(([field, type]) => parameter(field, "query", type, required.includes(field)));
  }
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, field = ""]) =>
    parameter(field, "path", place === "params" ? properties[field] : { type: "string", minLength: 1 }),
  );
};

const operation = (name: RouteName): Json => {
  const route = routeOf(name);
  const { summary, request, accepted = request } = SHAPES[name];
  const parameters = parametersOf(name, route);
  const content = { "application/json": { schema: accepted } };
  return {
    operationId: name,
    summary,
    ...(route.extension && { ...CHOICE, "x-extension": true, description: "An extension: not in the specification." }),
    security: SECURITY[route.surface],
    parameters: parameters.length === 0 ? undefined : parameters,
    requestBody: placeOf(name) === "body" ? { required: name !== "maps.loads", content } : undefined,
    responses: responsesOf(name, route.stream),
  };
};

export const openApiDocument = (): string => {
  const byPath = Object.groupBy(ROUTE_NAMES, (name) => routeOf(name).path);
  const operations = (names: RouteName[] = []): Json =>
    Object.fromEntries(names.map((name) => [routeOf(name).method.toLowerCase(), operation(name)]));
  const paths = Object.fromEntries(Object.entries(byPath).map(([path, names]) => [path, operations(names)]));
  return JSON.stringify({
    openapi: "3.1.0",
    info: {
      title: "Map Inference Platform API",
      version: "1",
      description: "As the reference platform serves it. `x-harness-choice` marks what the specification leaves open.",
    },
    servers: [{ url: "/v1" }],
    paths,
    components: {
      securitySchemes: {
        publishable: { ...BEARER, description: "A publishable key; only the exchange takes it." },
        publishableApiKey: API_KEY,
        bearer: { ...BEARER, description: "A server key or a session token." },
        apiKey: API_KEY,
        admin: { ...BEARER, bearerFormat: "JWT", description: "An organization admin's token." },
      },
    },
  });
};
