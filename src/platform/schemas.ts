/** What validates requests and `/openapi.json` describes. `x-harness-choice`: the specification shows no type. */
import { type TSchema, Type } from "typebox";
import { PRODUCTS, type RouteName, SCOPES } from "../contract/routes.ts";

/** Marks a choice where the specification says "not shown". */
const chosen = { "x-harness-choice": true } as const;
const Anything = Type.Unknown(chosen);
const AnyObject = Type.Object({}, chosen);
const Text = Type.String();
const Product = Type.Enum([...PRODUCTS]);
const Environment = Type.Enum(["live", "test"]);
const Index = Type.Integer({ minimum: 0 });

// ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Fields of a key that may be given and changed; the items of four lists are distinguished from what is checked first. */
const keyFields = (items: { scope: TSchema; product: TSchema; origin: TSchema; address: TSchema }) => ({
  name: Type.Optional(Type.String({ maxLength: 200 })),
  scopes: Type.Optional(Type.Array(items.scope, { maxItems: 100 })),
  products: Type.Optional(Type.Array(items.product, { maxItems: 100 })),
  allowed_origins: Type.Optional(Type.Array(items.origin, { maxItems: 1_000 })),
  allowed_ips: Type.Optional(Type.Array(items.address, { maxItems: 1_000 })),
  acknowledge_vendor: Type.Optional(Type.Boolean()),
  vendor_acknowledged: Type.Optional(Type.Boolean()),
  expires_at: Type.Optional(Type.Union([Type.Null(), Index])),
});

/** What is checked first: unknown words have subcodes of their own (item 134), so any text passes here. */
const AnyText = keyFields({ scope: Text, product: Text, origin: Text, address: Text });

// What passes every check that looks at the body alone, for the description of the API.
const Origin = Type.String({
  pattern: "^[A-Za-z][A-Za-z0-9+.-]*://(\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?/?$",
});
const OCTET = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])";
const Address = Type.Union([
  Type.String({ pattern: `^${OCTET}(\\.${OCTET}){3}(/([0-9]|[12][0-9]|3[0-2]))?$` }),
  Type.String({ format: "ipv6" }),
]);
const Words = keyFields({ scope: Type.Enum([...SCOPES]), product: Product, origin: Origin, address: Address });
const SomeOrigins = Type.Array(Origin, { minItems: 1, maxItems: 1_000 });
const publishable = { kind: Type.Literal("publishable"), ...Words };
/** Where what is accepted is narrower than what is checked first. */
export const DESCRIBED: { readonly [name in RouteName]?: TSchema } = {
  "keys.create": Type.Union(
    [
      Type.Object({ kind: Type.Literal("server"), env: Type.Optional(Environment), ...Words }),
      Type.Object({ ...publishable, env: Type.Literal("test") }),
      Type.Object({ ...publishable, env: Type.Optional(Type.Literal("live")), allowed_origins: SomeOrigins }),
    ],
    chosen,
  ),
  "keys.update": Type.Object(Words, chosen),
};

// ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Item 50: the record of a key, as it is stored, travels and is shown. */
export const KEY_RECORD = {
  id: Type.String({ minLength: 1 }),
  org_id: Type.String({ minLength: 1 }),
  kind: Type.Enum(["publishable", "server"]),
  env: Environment,
  name: Text,
  scopes: Type.Array(Type.Enum([...SCOPES])),
  products: Type.Array(Product),
  allowed_origins: Type.Array(Text),
  allowed_ips: Type.Array(Text),
  vendor_acknowledged: Type.Boolean(),
  status: Type.Enum(["valid", "revoked", "expired"]),
  created_at: Type.Number(),
  expires_at: Type.Union([Type.Null(), Type.Number()]),
  last4: Text,
};

/** The specification does not show these fields. */
const unshown = (fields: Parameters<typeof Type.Object>[0]): TSchema => Type.Object(fields, chosen);
/** The secret (`key`) is in the answer to its creation only. */
export const KeyAnswer = unshown({ ...KEY_RECORD, key: Type.Optional(Text) });
/** Items 97, 119: on success there is never an `error`. */
const orFailure = (success: TSchema): TSchema => Type.Union([success, Type.Object({ error: Text })]);
/** Item 120. */
const catalog = (name: string): TSchema => unshown({ [name]: Type.Array(Type.Object({ id: Text, name: Text })) });
const layers = { style_id: Text, layers: Type.Array(AnyObject) };
const metresAndSeconds = { distance_m: Type.Number(), duration_s: Type.Number() };
const Line = Type.Object({
  type: Type.Literal("LineString"),
  coordinates: Type.Array(Type.Array(Type.Number())),
});
const Legs = Type.Array(Type.Object(metresAndSeconds));

// ── by route ──────────────────────────────────────────────────────────────────────────────────────────────────────────

type RequestSchema = { in: "body" | "query" | "params"; schema: TSchema };
const body = (schema: TSchema): RequestSchema => ({ in: "body", schema });
const optional = (type: TSchema, ...names: string[]) =>
  Object.fromEntries(names.map((name) => [name, Type.Optional(type)]));

/** What a request to a route carries; `null`: nothing is read. */
export const REQUESTS: Readonly<Record<RouteName, RequestSchema | null>> = {
  // Items 65-67, 88-89.
  "sdk.sessions": body(Type.Object({ product: Product, ...optional(Text, "map_id") })),
  // Items 90-91, 102-103.
  "chat.control": body(
    Type.Object({
      messages: Type.Array(Type.Object({ role: Text, content: Text }), { minItems: 1 }),
      ...optional(Anything, "location", "map_zoom", "lang", "session_id", "app_snapshot", "auto_actions"),
    }),
  ),
  // Items 93, 104.
  "chat.summary": body(Type.Object({ type: Type.Enum(["poi", "building"]) })),
  // Item 105: any object.
  "chat.button": body(AnyObject),
  // Item 96: all three are required. The specification does not show the types of the last two, so any JSON is accepted.
  "chat.route": body(Type.Object({ places: Type.Array(Anything), profile: Anything, raw_query: Anything })),
  // Items 99, 109. Numbers come as text in a query; they are read before they are checked.
  "poi.enrich": {
    in: "query",
    schema: Type.Object({
      lat: Type.Number({ minimum: -90, maximum: 90 }),
      lon: Type.Number({ minimum: -180, maximum: 180 }),
      name: Type.String({ minLength: 1 }),
      category: Type.String({ minLength: 1 }),
      ...optional(Text, "source", "id", "poi_context", "lang"),
    }),
  },
  // Items 112, 118-119.
  "design.analyze": body(
    Type.Object({
      dataset: Type.Object({ sample_rows: Type.Array(Anything) }),
      ...optional(Anything, "prompt", "options"),
    }),
  ),
  // Item 113: the structure is not shown.
  "design.apply": body(AnyObject),
  "design.styles": null,
  "design.samples": null,
  "design.themes": null,
  // Extension: nothing is asked of the body.
  "maps.loads": body(Anything),
  // Extension: the address of a tile.
  "maps.tiles": {
    in: "params",
    schema: Type.Object({ z: Type.Integer({ minimum: 0, maximum: 22 }), x: Index, y: Index }),
  },
  // Items 48-50, 126, 138.
  "keys.create": body(unshown({ kind: KEY_RECORD.kind, env: Type.Optional(Environment), ...AnyText })),
  "keys.update": body(unshown(AnyText)),
  "keys.delete": null,
};

type AnswerSchema = { status: number; schema: TSchema | null };
const json = (schema: TSchema, status = 200): AnswerSchema => ({ status, schema });
const STREAM: AnswerSchema = { status: 200, schema: null };

export const ANSWERS: Readonly<Record<RouteName, AnswerSchema>> = {
  // Items 31-34.
  "sdk.sessions": json(
    Type.Object({
      session_token: Type.String({ pattern: "^svc_sess_[a-z]+_[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+$" }),
      expires_in: Type.Number({ exclusiveMinimum: 0, maximum: 1800 }),
      product: Product,
      ...optional(Text, "basemap_style_id"),
    }),
  ),
  "chat.control": STREAM,
  "chat.summary": STREAM,
  "chat.button": STREAM,
  // Items 97, 106.
  "chat.route": json(
    orFailure(unshown({ route: Type.Object({ profile: Text, ...metresAndSeconds, geometry: Line, legs: Legs }) })),
  ),
  // Item 109.
  "poi.enrich": json(
    unshown({
      poi: Type.Object({
        ...{ name: Text, category: Text, lat: Type.Number(), lon: Type.Number() },
        ...optional(Text, "source", "id"),
      }),
      facts: Type.Array(Text),
    }),
  ),
  "design.analyze": json(orFailure(unshown({ recommendation: Type.Object({ ...layers, rationale: Text }) }))),
  // Item 113: a partial MapSpec.
  "design.apply": json(unshown({ map_spec: Type.Object(layers) })),
  "design.styles": json(catalog("styles")),
  "design.samples": json(catalog("samples")),
  "design.themes": json(catalog("themes")),
  "maps.loads": json(unshown({ meter: Type.Literal("map_loads"), limit: Type.Integer(), used: Type.Integer() })),
  "maps.tiles": json(unshown({ z: Type.Integer(), x: Type.Integer(), y: Type.Integer() })),
  "keys.create": json(KeyAnswer, 201),
  "keys.update": json(KeyAnswer),
  "keys.delete": { status: 204, schema: null },
};
