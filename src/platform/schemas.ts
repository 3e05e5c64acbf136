/**
 * The shapes of requests and answers, written once: they validate what comes in and they are what `/openapi.json` describes. Where the
 * specification does not show a type any JSON is taken (spec-checklist.md, rule 1: never stricter than the specification);
 * such choices are marked `x-harness-choice`.
 */
import { type TSchema, Type } from "typebox";
import { PRODUCTS, type RouteName, SCOPES } from "../contract/routes.ts";

/** Marks a choice where the specification says "not shown". */
const chosen = { "x-harness-choice": true } as const;
const Anything = Type.Unknown(chosen);
const AnyObject = Type.Object({}, chosen);

// ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Items 65-67, 88-89. */
const SessionRequest = Type.Object({
  product: Type.Enum([...PRODUCTS]),
  map_id: Type.Optional(Type.String()),
});

/** Items 90-91, 102-103. */
const ControlRequest = Type.Object({
  messages: Type.Array(Type.Object({ role: Type.String(), content: Type.String() }), { minItems: 1 }),
  location: Type.Optional(Anything),
  map_zoom: Type.Optional(Anything),
  lang: Type.Optional(Anything),
  session_id: Type.Optional(Anything),
  app_snapshot: Type.Optional(Anything),
  auto_actions: Type.Optional(Anything),
});

/** Items 93, 104. */
const SummaryRequest = Type.Object({ type: Type.Enum(["poi", "building"]) });

/** Item 105: any object. */
const ButtonRequest = AnyObject;

/** Item 96: all three are required; the types of the last two are not shown. */
const RouteRequest = Type.Object({ places: Type.Array(Anything), profile: Anything, raw_query: Anything });

/** Items 99, 109. Numbers come as text in a query; they are read before they are checked. */
const PoiQuery = Type.Object({
  lat: Type.Number({ minimum: -90, maximum: 90 }),
  lon: Type.Number({ minimum: -180, maximum: 180 }),
  name: Type.String({ minLength: 1 }),
  category: Type.String({ minLength: 1 }),
  source: Type.Optional(Type.String()),
  id: Type.Optional(Type.String()),
  poi_context: Type.Optional(Type.String()),
  lang: Type.Optional(Type.String()),
});

/** Items 112, 118-119. */
const AnalyzeRequest = Type.Object({
  dataset: Type.Object({ sample_rows: Type.Array(Anything) }),
  prompt: Type.Optional(Anything),
  options: Type.Optional(Anything),
});

/** Item 113: the structure is not shown. */
const ApplyRequest = AnyObject;

/** Extension: nothing is asked of the body. */
const LoadRequest = Anything;

/** Extension: the address of a tile. */
const TileParams = Type.Object({
  z: Type.Integer({ minimum: 0, maximum: 22 }),
  x: Type.Integer({ minimum: 0 }),
  y: Type.Integer({ minimum: 0 }),
});

const list = (items: TSchema, most: number): TSchema => Type.Array(items, { maxItems: most });

/** Fields of a key that may be given and changed; the items of four lists are distinguished from what is checked first. */
const keyFields = (items: { scope: TSchema; product: TSchema; origin: TSchema; address: TSchema }) => ({
  name: Type.Optional(Type.String({ maxLength: 200 })),
  scopes: Type.Optional(list(items.scope, 100)),
  products: Type.Optional(list(items.product, 100)),
  allowed_origins: Type.Optional(list(items.origin, 1_000)),
  allowed_ips: Type.Optional(list(items.address, 1_000)),
  acknowledge_vendor: Type.Optional(Type.Boolean()),
  vendor_acknowledged: Type.Optional(Type.Boolean()),
  expires_at: Type.Optional(Type.Union([Type.Null(), Type.Integer({ minimum: 0 })])),
});

/** What is checked first: unknown words have subcodes of their own (item 134), so any text passes here. */
const AnyText = keyFields({
  scope: Type.String(),
  product: Type.String(),
  origin: Type.String(),
  address: Type.String(),
});

/** Items 48-50, 126, 138. */
const KeyCreateRequest = Type.Object(
  {
    kind: Type.Enum(["publishable", "server"]),
    env: Type.Optional(Type.Enum(["live", "test"])),
    ...AnyText,
  },
  chosen,
);

const KeyUpdateRequest = Type.Object(AnyText, chosen);

// What passes every check that looks at the body alone, for the description of the API.
const Origin = Type.String({
  pattern: "^[A-Za-z][A-Za-z0-9+.-]*://(\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?/?$",
});
const OCTET = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])";
const Address = Type.Union([
  Type.String({ pattern: `^${OCTET}(\\.${OCTET}){3}(/([0-9]|[12][0-9]|3[0-2]))?$` }),
  Type.String({ format: "ipv6" }),
]);
const Words = keyFields({
  scope: Type.Enum([...SCOPES]),
  product: Type.Enum([...PRODUCTS]),
  origin: Origin,
  address: Address,
});
const DescribedKeyCreate = Type.Union(
  [
    Type.Object({ kind: Type.Literal("server"), env: Type.Optional(Type.Enum(["live", "test"])), ...Words }),
    Type.Object({ kind: Type.Literal("publishable"), env: Type.Literal("test"), ...Words }),
    Type.Object({
      kind: Type.Literal("publishable"),
      env: Type.Optional(Type.Literal("live")),
      ...Words,
      allowed_origins: Type.Array(Origin, { minItems: 1, maxItems: 1_000 }),
    }),
  ],
  chosen,
);

/** Where what is accepted is narrower than what is checked first. */
export const DESCRIBED: { readonly [name in RouteName]?: TSchema } = {
  "keys.create": DescribedKeyCreate,
  "keys.update": Type.Object(Words, chosen),
};

// ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Items 31-34. */
const SessionAnswer = Type.Object({
  session_token: Type.String({ pattern: "^svc_sess_[a-z]+_[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+$" }),
  expires_in: Type.Number({ exclusiveMinimum: 0, maximum: 1800 }),
  product: Type.Enum([...PRODUCTS]),
  basemap_style_id: Type.Optional(Type.String()),
});

const Failure = Type.Object({ error: Type.String() });

/** Items 97, 106: on success there is never an `error`. */
const RouteAnswer = Type.Union([
  Type.Object(
    {
      route: Type.Object({
        profile: Type.String(),
        distance_m: Type.Number(),
        duration_s: Type.Number(),
        geometry: Type.Object({
          type: Type.Literal("LineString"),
          coordinates: Type.Array(Type.Array(Type.Number())),
        }),
        legs: Type.Array(Type.Object({ distance_m: Type.Number(), duration_s: Type.Number() })),
      }),
    },
    chosen,
  ),
  Failure,
]);

/** Item 109. */
const PoiAnswer = Type.Object(
  {
    poi: Type.Object({
      name: Type.String(),
      category: Type.String(),
      lat: Type.Number(),
      lon: Type.Number(),
      source: Type.Optional(Type.String()),
      id: Type.Optional(Type.String()),
    }),
    facts: Type.Array(Type.String()),
  },
  chosen,
);

/** Item 119. */
const AnalyzeAnswer = Type.Union([
  Type.Object(
    {
      recommendation: Type.Object({
        style_id: Type.String(),
        layers: Type.Array(AnyObject),
        rationale: Type.String(),
      }),
    },
    chosen,
  ),
  Failure,
]);

/** Item 113: a partial MapSpec. */
const ApplyAnswer = Type.Object(
  { map_spec: Type.Object({ style_id: Type.String(), layers: Type.Array(AnyObject) }) },
  chosen,
);

/** Item 120. */
const catalog = (name: string): TSchema =>
  Type.Object({ [name]: Type.Array(Type.Object({ id: Type.String(), name: Type.String() })) }, chosen);
const StylesAnswer = catalog("styles");
const SamplesAnswer = catalog("samples");
const ThemesAnswer = catalog("themes");

const LoadAnswer = Type.Object(
  { meter: Type.Literal("map_loads"), limit: Type.Integer(), used: Type.Integer() },
  chosen,
);

const TileAnswer = Type.Object({ z: Type.Integer(), x: Type.Integer(), y: Type.Integer() }, chosen);

/** Item 50: a key record; the secret (`key`) is in the answer to its creation only. */
export const KeyAnswer = Type.Object(
  {
    id: Type.String(),
    org_id: Type.String(),
    kind: Type.Enum(["publishable", "server"]),
    env: Type.Enum(["live", "test"]),
    name: Type.String(),
    scopes: Type.Array(Type.String()),
    products: Type.Array(Type.String()),
    allowed_origins: Type.Array(Type.String()),
    allowed_ips: Type.Array(Type.String()),
    vendor_acknowledged: Type.Boolean(),
    status: Type.Enum(["valid", "revoked", "expired"]),
    created_at: Type.Integer(),
    expires_at: Type.Union([Type.Null(), Type.Integer()]),
    last4: Type.String(),
    key: Type.Optional(Type.String()),
  },
  chosen,
);

/** What a request to a route carries, by route; `null`: nothing is read. */
export const REQUESTS: Readonly<Record<RouteName, { in: "body" | "query" | "params"; schema: TSchema } | null>> = {
  "sdk.sessions": { in: "body", schema: SessionRequest },
  "chat.control": { in: "body", schema: ControlRequest },
  "chat.summary": { in: "body", schema: SummaryRequest },
  "chat.button": { in: "body", schema: ButtonRequest },
  "chat.route": { in: "body", schema: RouteRequest },
  "poi.enrich": { in: "query", schema: PoiQuery },
  "design.analyze": { in: "body", schema: AnalyzeRequest },
  "design.apply": { in: "body", schema: ApplyRequest },
  "design.styles": null,
  "design.samples": null,
  "design.themes": null,
  "maps.loads": { in: "body", schema: LoadRequest },
  "maps.tiles": { in: "params", schema: TileParams },
  "keys.create": { in: "body", schema: KeyCreateRequest },
  "keys.update": { in: "body", schema: KeyUpdateRequest },
  "keys.delete": null,
};

/** The JSON answer to success; `null`: a stream, or no content. */
export const ANSWERS: Readonly<Record<RouteName, { status: number; schema: TSchema | null }>> = {
  "sdk.sessions": { status: 200, schema: SessionAnswer },
  "chat.control": { status: 200, schema: null },
  "chat.summary": { status: 200, schema: null },
  "chat.button": { status: 200, schema: null },
  "chat.route": { status: 200, schema: RouteAnswer },
  "poi.enrich": { status: 200, schema: PoiAnswer },
  "design.analyze": { status: 200, schema: AnalyzeAnswer },
  "design.apply": { status: 200, schema: ApplyAnswer },
  "design.styles": { status: 200, schema: StylesAnswer },
  "design.samples": { status: 200, schema: SamplesAnswer },
  "design.themes": { status: 200, schema: ThemesAnswer },
  "maps.loads": { status: 200, schema: LoadAnswer },
  "maps.tiles": { status: 200, schema: TileAnswer },
  "keys.create": { status: 201, schema: KeyAnswer },
  "keys.update": { status: 200, schema: KeyAnswer },
  "keys.delete": { status: 204, schema: null },
};
