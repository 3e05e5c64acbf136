/** The schemas that validate requests and make `/openapi.json`. `x-harness-choice`: the specification shows no type. */
import { type TSchema, Type } from "typebox";
import { PRODUCTS, type RouteName, routeOf, SCOPES } from "../contract/routes.ts";
import { KEY_RECORD } from "../core/call.ts";
import { KEY_CREATION, KEY_UPDATE } from "../core/management.ts";

/** Marks a choice where the specification says "not shown". */
const chosen = { "x-harness-choice": true } as const;
const unshown = (fields: Parameters<typeof Type.Object>[0]): TSchema => Type.Object(fields, chosen);
const Anything = Type.Unknown(chosen);
const AnyObject = unshown({});
const Text = Type.String();
const Product = Type.Enum([...PRODUCTS]);
const Index = Type.Integer({ minimum: 0 });

const optional = (type: TSchema, ...names: string[]) =>
  Object.fromEntries(names.map((name) => [name, Type.Optional(type)]));
const listOf = (item: TSchema, maxItems: number) => Type.Optional(Type.Array(item, { maxItems }));

// Schemas, for the description of the API, of a new key that passes every check of the body alone.
const Origin = Type.String({
  pattern: "^[A-Za-z][A-Za-z0-9+.-]*://(\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?/?$",
});
const OCTET = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])";
const Address = Type.Union([
  Type.String({ pattern: `^${OCTET}(\\.${OCTET}){3}(/([0-9]|[12][0-9]|3[0-2]))?$` }),
  Type.String({ format: "ipv6" }),
]);
const Words = {
  ...KEY_UPDATE.properties,
  scopes: listOf(Type.Enum([...SCOPES]), 100),
  products: listOf(Product, 100),
  allowed_origins: listOf(Origin, 1_000),
  allowed_ips: listOf(Address, 1_000),
};
const SomeOrigins = Type.Array(Origin, { minItems: 1, maxItems: 1_000 });
const publishable = { kind: Type.Literal("publishable"), ...Words };
const creation = Type.Union(
  [
    Type.Object({ kind: Type.Literal("server"), env: KEY_CREATION.properties.env, ...Words }),
    Type.Object({ ...publishable, env: Type.Literal("test") }),
    Type.Object({ ...publishable, env: Type.Optional(Type.Literal("live")), allowed_origins: SomeOrigins }),
  ],
  chosen,
);

/** The secret (`key`) is in the answer to its creation only. */
export const KeyAnswer = unshown({ ...KEY_RECORD.properties, key: Type.Optional(Text) });
/** The success, or `{error}` for a failure under status 200 (items 97, 119). */
const orFailure = (success: TSchema): TSchema => Type.Union([success, Type.Object({ error: Text })]);
/** The answer of a catalog route (item 120). */
const catalog = (name: string): TSchema => unshown({ [name]: Type.Array(Type.Object({ id: Text, name: Text })) });
const layers = { style_id: Text, layers: Type.Array(AnyObject) };
const metresAndSeconds = { distance_m: Type.Number(), duration_s: Type.Number() };
const Line = Type.Object({ type: Type.Literal("LineString"), coordinates: Type.Array(Type.Array(Type.Number())) });
const Legs = Type.Array(Type.Object(metresAndSeconds));

type Shape = {
  summary: string;
  /** What a request carries (`placeOf`); absent: nothing is read. */
  request?: TSchema;
  /** A narrower schema of what is accepted, if `request` lets more pass. */
  accepted?: TSchema;
  /** Status and body of a success: 200 and no schema (a stream) unless stated. */
  status?: number;
  answer?: TSchema;
};

export const SHAPES: Readonly<Record<RouteName, Shape>> = {
  // Items 31-34, 65-67, 88-89.
  "sdk.sessions": {
    summary: "Exchanges a publishable key for a session token",
    request: Type.Object({ product: Product, ...optional(Text, "map_id") }),
    answer: Type.Object({
      session_token: Type.String({ pattern: "^svc_sess_[a-z]+_[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+$" }),
      expires_in: Type.Number({ exclusiveMinimum: 0, maximum: 1800 }),
      product: Product,
      ...optional(Text, "basemap_style_id"),
    }),
  },
  // Items 90-91, 102-103.
  "chat.control": {
    summary: "Map chat: control stream",
    request: Type.Object({
      messages: Type.Array(Type.Object({ role: Text, content: Text }), { minItems: 1 }),
      ...optional(Anything, "location", "map_zoom", "lang", "session_id", "app_snapshot", "auto_actions"),
    }),
  },
  // Items 93, 104.
  "chat.summary": {
    summary: "Map chat: summary stream",
    request: Type.Object({ type: Type.Enum(["poi", "building"]) }),
  },
  // Item 105: any object.
  "chat.button": { summary: "Map chat: popup stream", request: AnyObject },
  // Items 96-97, 106: all three are required; the types of the last two are not shown, so any JSON is accepted.
  "chat.route": {
    summary: "Route between places; its own failures are 200 with an error",
    request: Type.Object({ places: Type.Array(Anything), profile: Anything, raw_query: Anything }),
    answer: orFailure(
      unshown({ route: Type.Object({ profile: Text, ...metresAndSeconds, geometry: Line, legs: Legs }) }),
    ),
  },
  // Items 99, 109. Numbers come as text in a query; the server parses them before it checks them.
  "poi.enrich": {
    summary: "Facts about a point of interest",
    request: Type.Object({
      lat: Type.Number({ minimum: -90, maximum: 90 }),
      lon: Type.Number({ minimum: -180, maximum: 180 }),
      name: Type.String({ minLength: 1 }),
      category: Type.String({ minLength: 1 }),
      ...optional(Text, "source", "id", "poi_context", "lang"),
    }),
    answer: unshown({
      poi: Type.Object({
        ...{ name: Text, category: Text, lat: Type.Number(), lon: Type.Number() },
        ...optional(Text, "source", "id"),
      }),
      facts: Type.Array(Text),
    }),
  },
  // Items 112, 118-119.
  "design.analyze": {
    summary: "Recommends a map for a data set (metered)",
    request: Type.Object({
      dataset: Type.Object({ sample_rows: Type.Array(Anything) }),
      ...optional(Anything, "prompt", "options"),
    }),
    answer: orFailure(unshown({ recommendation: Type.Object({ ...layers, rationale: Text }) })),
  },
  // Item 113: the structure is not shown; a partial MapSpec is answered.
  "design.apply": {
    summary: "Turns a data set and column roles into a partial MapSpec",
    request: AnyObject,
    answer: unshown({ map_spec: Type.Object(layers) }),
  },
  "design.styles": { summary: "Style catalog", answer: catalog("styles") },
  "design.samples": { summary: "Worked-sample catalog", answer: catalog("samples") },
  "design.themes": { summary: "Theme-pack catalog", answer: catalog("themes") },
  // Extension: any body is accepted.
  "maps.loads": {
    summary: "Records one map load",
    request: Anything,
    answer: unshown({ meter: Type.Literal("map_loads"), limit: Type.Integer(), used: Type.Integer() }),
  },
  // Extension: the address of a tile.
  "maps.tiles": {
    summary: "The address of a tile",
    request: Type.Object({ z: Type.Integer({ minimum: 0, maximum: 22 }), x: Index, y: Index }),
    answer: unshown({ z: Type.Integer(), x: Type.Integer(), y: Type.Integer() }),
  },
  // Items 48-50, 126, 138.
  "keys.create": {
    summary: "Creates a key",
    request: unshown(KEY_CREATION.properties),
    accepted: creation,
    status: 201,
    answer: KeyAnswer,
  },
  "keys.update": {
    summary: "Changes a key",
    request: unshown(KEY_UPDATE.properties),
    accepted: Type.Object(Words, chosen),
    answer: KeyAnswer,
  },
  "keys.delete": { summary: "Revokes a key", status: 204 },
};

/** Where a request to the route carries its data; `null` if nothing is read. */
export const placeOf = (name: RouteName): "body" | "query" | "params" | null => {
  const { method, path } = routeOf(name);
  if (SHAPES[name].request === undefined) return null;
  if (method !== "GET") return "body";
  return path.includes("{") ? "params" : "query";
};
