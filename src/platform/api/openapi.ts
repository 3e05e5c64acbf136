/**
 * The description of the API (`/openapi.json`). Each stream has one schema per event, its data described as JSON
 * (specification section 6; items 92-95, 104-105, 166-176); names may be added without a new version (item 15).
 */
import { type TSchema, Type } from "typebox";
import { type AnyRefusalName, refusalOf } from "../../contract/refusals.ts";
import { ROUTE_NAMES, type Route, type RouteName, routeOf, type Stream, type Surface } from "../../contract/routes.ts";
import { ERROR_EVENT, VOCABULARIES } from "../../contract/streams.ts";
import { ANSWERS, DESCRIBED, REQUESTS } from "../schemas.ts";

const Whole = Type.Integer({ minimum: 0 });

/** What events carry beside `type`, which repeats the event's name. Only that of `error` is in the specification (item 167). */
const FIELDS: Readonly<Record<string, Record<string, TSchema>>> = {
  token: { text: Type.String() },
  action: { action: Type.String(), args: Type.Object({}) },
  quota: { meter: Type.Literal("chat_turns"), limit: Whole, used: Whole, remaining: Whole },
  done: { session_id: Type.String() },
  summary_delta: { delta: Type.String() },
  summary_done: { summary_type: Type.Enum(["poi", "building"]) },
  chunk: { content: Type.String() },
  end: {},
  [ERROR_EVENT]: {
    message: Type.String(),
    code: Type.String({ minLength: 1 }),
    partial_text: Type.String(),
  },
};

export const eventNames = (kind: Stream): string[] => {
  const { content, quota, done } = VOCABULARIES[kind];
  return [...content, ...(quota ? ["quota"] : []), done, ERROR_EVENT];
};

const eventData = (name: string): TSchema =>
  Type.Object({ type: Type.Literal(name), ...FIELDS[name] }, name === ERROR_EVENT ? {} : { "x-harness-choice": true });

/** In OpenAPI 3.1 the schema of an event stream is that of one event: its name, and its data as text. */
const streamContent = (kind: Stream): Record<string, unknown> => {
  const names = eventNames(kind);
  const { done } = VOCABULARIES[kind];
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
        description: `${done} and ${ERROR_EVENT} end the stream.`,
        required: ["event", "data"],
        properties: { event: { type: "string" }, data: { type: "string" } },
        anyOf: [...known, { properties: { event: { not: { enum: names } } } }],
      },
    },
  };
};

type Json = Record<string, unknown>;

const CHOICE = { "x-harness-choice": true };

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
  const request = REQUESTS[name];
  const body: AnyRefusalName[] = request === null ? [] : ["malformed_body"];
  if (request?.in === "body") body.push("payload_too_large");
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
  const own = [...FRONT, ...RUNTIME, origin, ...ADMISSION, ...LIMITS] satisfies Names;
  const metered = meter === "map_loads" ? METERED : [];
  return [...own, ...metered, ...(name === "maps.tiles" ? (["not_found"] as const) : []), ...body];
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

const refusalResponses = (name: RouteName): Json => {
  const byStatus = new Map<number, AnyRefusalName[]>();
  for (const refusal of refusalsOf(name)) {
    const { status } = refusalOf(refusal);
    byStatus.set(status, [...(byStatus.get(status) ?? []), refusal]);
  }
  return Object.fromEntries([...byStatus].map(([status, names]) => [status, refusalResponse(status, names)]));
};

const SUMMARIES: Readonly<Record<RouteName, string>> = {
  "sdk.sessions": "Exchanges a publishable key for a session token",
  "chat.control": "Map chat: control stream",
  "chat.summary": "Map chat: summary stream",
  "chat.button": "Map chat: popup stream",
  "chat.route": "Route between places; its own failures are 200 with an error",
  "poi.enrich": "Facts about a point of interest",
  "design.analyze": "Recommends a map for a data set (metered)",
  "design.apply": "Turns a data set and column roles into a partial MapSpec",
  "design.styles": "Style catalog",
  "design.samples": "Worked-sample catalog",
  "design.themes": "Theme-pack catalog",
  "maps.loads": "Records one map load",
  "maps.tiles": "The address of a tile",
  "keys.create": "Creates a key",
  "keys.update": "Changes a key",
  "keys.delete": "Revokes a key",
};

const success = (name: RouteName, route: Route): Json => {
  const { status, schema } = ANSWERS[name];
  const json = schema === null ? undefined : { "application/json": { schema } };
  const content = route.stream === undefined ? json : streamContent(route.stream);
  return { [status]: { description: SUMMARIES[name], headers: REQUEST_ID, content } };
};

/** Item 71. Elsewhere a call from a browser carries it too, and one from a server does not. */
const ORIGIN: Json = {
  name: "Origin",
  in: "header",
  required: true,
  description: "One of the key's allowed origins.",
  schema: { type: "string" },
};

/** Who may call; each credential in either of two headers (item 143). */
const SECURITY: Readonly<Record<Surface, Json[]>> = {
  exchange: [{ publishable: [] }, { publishableApiKey: [] }],
  runtime: [{ bearer: [] }, { apiKey: [] }],
  management: [{ admin: [] }],
};

const parametersOf = (name: RouteName, route: Route): Json[] => {
  const request = REQUESTS[name];
  const schema = request?.schema as (TSchema & { properties?: Json; required?: string[] }) | undefined;
  const described = (where: "query" | "path", field: string, fieldSchema: unknown): Json => ({
    name: field,
    in: where,
    required: where === "path" || (schema?.required ?? []).includes(field),
    schema: fieldSchema,
  });
  if (route.surface === "exchange") return [ORIGIN];
  const fields = Object.entries(schema?.properties ?? {});
  if (request?.in === "query") return fields.map(([field, of]) => described("query", field, of));
  if (request?.in === "params") return fields.map(([field, of]) => described("path", field, of));
  return [...route.path.matchAll(/\{(\w+)\}/g)].map(([, field]) =>
    described("path", field as string, { type: "string", minLength: 1 }),
  );
};

const operation = (name: RouteName): Json => {
  const route = routeOf(name);
  const request = REQUESTS[name];
  const parameters = parametersOf(name, route);
  return {
    operationId: name,
    summary: SUMMARIES[name],
    ...(route.extension === true
      ? { ...CHOICE, "x-extension": true, description: "An extension: not in the specification." }
      : {}),
    security: SECURITY[route.surface],
    parameters: parameters.length === 0 ? undefined : parameters,
    requestBody:
      request?.in === "body"
        ? {
            required: name !== "maps.loads",
            content: { "application/json": { schema: DESCRIBED[name] ?? request.schema } },
          }
        : undefined,
    responses: { ...success(name, route), ...refusalResponses(name) },
  };
};

export const openApiDocument = (): string => {
  const paths: Record<string, Json> = {};
  for (const name of ROUTE_NAMES) {
    const { path, method } = routeOf(name);
    paths[path] ??= {};
    (paths[path] as Json)[method.toLowerCase()] = operation(name);
  }
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
        publishable: { type: "http", scheme: "bearer", description: "A publishable key; only the exchange takes it." },
        publishableApiKey: { type: "apiKey", in: "header", name: "X-Api-Key", description: "The same." },
        bearer: { type: "http", scheme: "bearer", description: "A server key or a session token." },
        apiKey: { type: "apiKey", in: "header", name: "X-Api-Key", description: "The same." },
        admin: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "An organization admin's token." },
      },
    },
  });
};
