/** Every route of the API, and what a caller needs for it (specification section 4; items 64-128). */

export type Scope = "ai" | "design" | "maps" | "vendor";
export const SCOPES: readonly Scope[] = ["ai", "design", "maps", "vendor"];

export type Product = "chat" | "editor" | "viewer" | "tile";
export const PRODUCTS: readonly Product[] = ["chat", "editor", "viewer", "tile"];

/** Product -> the scope that minting it needs (item 82). */
export const PRODUCT_SCOPE: Readonly<Record<Product, Scope | null>> = {
  chat: "ai",
  editor: "design",
  viewer: null,
  tile: "maps",
};

export type Meter = "map_loads" | "design_analyses";

/** One charge or refund as the store reports it (`GET /ledger`); `window`: `YYYY-MM`, UTC. */
export type LedgerLine = Record<"charge_id" | "request_id" | "org" | "key" | "window", string> & {
  meter: Meter;
  kind: "charge" | "refund";
  amount: number;
  /** Milliseconds since 1970, by the store's clock. */
  at: number;
};

/** Each has its order of checks: exchange (4.1), runtime (5), key management (7.3). */
export type Surface = "exchange" | "runtime" | "management";

export type Stream = "control" | "summary" | "button";

export type Route = {
  readonly name: string;
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Below `{base_url}`; `{x}` marks a parameter. */
  readonly path: string;
  readonly surface: Surface;
  readonly scope: Scope | null;
  /** Body or query is not fully specified, so a deployment may take another one than ours. */
  readonly open?: true;
  readonly stream?: Stream;
  /** The meter of an admitted call. The exchange charges only for product `tile` (A9). */
  readonly meter?: Meter;
  /** A foreign origin gets `tile_access_restricted`, not `session_origin_mismatch` (A12). */
  readonly tile?: true;
  /** Not in the specification: an extension of the reference platform. */
  readonly extension?: true;
};

const route = (
  name: string,
  method: Route["method"],
  path: string,
  scope: Scope | null,
  more: Partial<Route> = {},
): Route => ({ name, method, path, surface: "runtime", scope, ...more });

export const ROUTES = {
  "sdk.sessions": route("sdk.sessions", "POST", "/sdk/sessions", null, { surface: "exchange" }),
  "chat.control": route("chat.control", "POST", "/chat/control/stream", "ai", { stream: "control" }),
  "chat.summary": route("chat.summary", "POST", "/chat/summary/stream", "ai", { open: true, stream: "summary" }),
  "chat.button": route("chat.button", "POST", "/chat/button/stream", "ai", { open: true, stream: "button" }),
  "chat.route": route("chat.route", "POST", "/chat/control/route", "ai", { open: true }),
  "poi.enrich": route("poi.enrich", "GET", "/retrieval/poi/enrich", "ai", { open: true }),
  "design.analyze": route("design.analyze", "POST", "/design/analyze", "design", {
    open: true,
    meter: "design_analyses",
  }),
  "design.apply": route("design.apply", "POST", "/design/apply-direct", "design", { open: true }),
  "design.styles": route("design.styles", "GET", "/design/styles", "design"),
  "design.samples": route("design.samples", "GET", "/design/samples", "design"),
  "design.themes": route("design.themes", "GET", "/design/themes", "design"),
  "maps.loads": route("maps.loads", "POST", "/maps/loads", "maps", { meter: "map_loads", tile: true, extension: true }),
  "maps.tiles": route("maps.tiles", "GET", "/maps/tiles/{z}/{x}/{y}", "maps", { tile: true, extension: true }),
  "keys.create": route("keys.create", "POST", "/shared-api/api-keys", null, { surface: "management" }),
  "keys.update": route("keys.update", "PATCH", "/shared-api/api-keys/{key_id}", null, { surface: "management" }),
  "keys.delete": route("keys.delete", "DELETE", "/shared-api/api-keys/{key_id}", null, { surface: "management" }),
} as const satisfies Record<string, Route>;

export type RouteName = keyof typeof ROUTES;
export const routeOf = (name: RouteName): Route => ROUTES[name];

/** Whether a call of this route asks for an event stream. `-`: no route of the API. */
export const isStreamed = ({ route }: { readonly route: RouteName | "-" }): boolean =>
  route !== "-" && routeOf(route).stream !== undefined;

export const ROUTE_NAMES = Object.keys(ROUTES) as RouteName[];
