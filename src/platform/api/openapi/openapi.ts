/**
 * The description of the API in OpenAPI 3.1, from the same schemas that validate and the same catalogue that refuses, so it
 * cannot say anything else than what is served. What the specification leaves open and this platform chose is marked
 * `x-harness-choice`.
 */
import type { TSchema } from "typebox";
import { ROUTE_NAMES, type Route, type RouteName, routeOf, type Surface } from "../../../contract/routes.ts";
import { ANSWERS, DESCRIBED, REQUESTS } from "../../schemas.ts";
import { CHOICE, type Json, REQUEST_ID, refusalResponses } from "./openapi-refusals.ts";
import { streamContent } from "./openapi-streams.ts";

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
  const content = schema === null ? {} : { content: { "application/json": { schema } } };
  return {
    [status]: {
      description: SUMMARIES[name],
      headers: REQUEST_ID,
      ...(route.stream === undefined ? content : { content: streamContent(route.stream) }),
    },
  };
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
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(request?.in === "body"
      ? {
          requestBody: {
            required: name !== "maps.loads",
            content: { "application/json": { schema: DESCRIBED[name] ?? request.schema } },
          },
        }
      : {}),
    responses: { ...success(name, route), ...refusalResponses(name) },
  };
};

/** The document, as JSON text. */
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
