/** One call for every answer that a caller can provoke alone (sections 5 to 7); `smoke` makes each under load. */
import type { Product, RouteName } from "../contract/routes.ts";
import type { CredentialRef, OriginRef, StepWish } from "./step.ts";

type More = Partial<StepWish>;

const publishable = (name = "publishable"): CredentialRef => ({ as: "publishable", of: `role:${name}` });
const server = (name = "server"): CredentialRef => ({ as: "server", of: `role:${name}` });
const session = (product: Product): CredentialRef => ({ as: "session", of: "role:publishable", product });

const call = (route: RouteName, credential: CredentialRef, more: More = {}): StepWish => ({
  route,
  credential,
  ...more,
});
const exchange = (credential: CredentialRef, product: Product, origin: OriginRef = "listed"): StepWish =>
  call("sdk.sessions", credential, { product, origin });
const inSession = (route: RouteName, product: Product, origin: OriginRef = "listed"): StepWish =>
  call(route, session(product), { origin });
type Body = NonNullable<StepWish["body"]>;

const malformed = (route: RouteName, text: string, is: Body["is"] = "malformed"): StepWish =>
  route === "sdk.sessions"
    ? call(route, publishable(), { origin: "listed", body: { is, text } })
    : call(route, server(), { body: { is, text } });
/** A body that the reference platform calls malformed, where the specification leaves open whether it is. */
const doubtful = (route: RouteName, text: string): StepWish => malformed(route, text, "unknown");

// biome-ignore format: a table
export const CORRECT_CALLS: readonly StepWish[] = [
  ...(["chat", "editor", "tile"] as const).map((product) => exchange(publishable(), product)),
  exchange(publishable("publishable_other_org"), "chat"), exchange(publishable("publishable_basemap"), "editor"),
  exchange(publishable("publishable_tile_only"), "tile"), exchange(publishable("publishable_downgraded"), "tile"),
  exchange(publishable("publishable_no_ai"), "editor"),
  ...(["chat.control", "chat.summary", "chat.button", "chat.route", "poi.enrich", "design.analyze", "design.apply"] as const).map((route) =>
    call(route, server())),
  ...(["design.styles", "design.samples", "design.themes", "maps.loads", "maps.tiles"] as const).map((route) => call(route, server())),
  inSession("chat.control", "chat"), inSession("chat.summary", "chat"), inSession("chat.button", "chat"), inSession("chat.route", "chat"),
  inSession("poi.enrich", "chat", "none"), inSession("design.styles", "editor"), inSession("maps.loads", "tile"),
  inSession("maps.tiles", "tile", "none"),
  // One place makes no route, so the answer is 200 with an `error` key (items 97, 186).
  call("chat.route", server(), {
    body: { is: "ok", text: JSON.stringify({ places: [{ name: "Station" }], profile: "walking", raw_query: "there" }) } }),
  // The reader leaves early, so its slot must be released.
  call("chat.control", server(), { abort: { afterEvents: 1 } }),
];

/** Calls that must be refused, and so are not charged. */
// biome-ignore format: a table
export const REFUSED_CALLS: readonly StepWish[] = [
  call("design.styles", { as: "none" }), call("chat.control", { as: "none" }), call("chat.route", { as: "none" }),
  call("design.styles", { as: "garbage" }), call("chat.control", { as: "unknown" }),
  exchange({ as: "none" }, "chat"), exchange({ as: "garbage" }, "chat"), exchange({ as: "unknown" }, "chat"),
  exchange(publishable("revoked"), "chat"), exchange(publishable("expired"), "chat"),
  // The wrong kind of credential, or in the wrong place; browser before address (A6, item 148).
  call("design.styles", publishable(), { origin: "listed" }), call("chat.control", publishable(), { origin: "listed" }),
  call("poi.enrich", publishable(), { origin: "none" }),
  exchange(server(), "chat", "none"), exchange(server(), "chat", "foreign"), exchange(session("chat"), "chat"),
  call("design.styles", server(), { origin: "foreign" }), call("chat.control", server(), { origin: "null" }),
  call("design.styles", server("server_foreign_ip")), call("design.styles", server("server_foreign_ip"), { origin: "foreign" }),
  // From the wrong origin; the earlier check decides (item 81).
  exchange(publishable(), "chat", "none"), exchange(publishable(), "chat", "foreign"), exchange(publishable(), "chat", "null"),
  exchange(publishable("publishable_tile_only"), "chat", "none"), exchange(publishable("publishable_exhausted"), "tile", "foreign"),
  inSession("chat.control", "chat", "foreign"), inSession("poi.enrich", "chat", "null"),
  inSession("maps.loads", "tile", "foreign"), inSession("maps.tiles", "tile", "foreign"),
  // Not admitted: scope, product, tier.
  exchange(publishable("publishable_no_ai"), "chat"), exchange(publishable("publishable_tile_only"), "editor"),
  exchange(publishable(), "viewer"), exchange(publishable("publishable_downgraded"), "chat"),
  exchange(publishable("publishable_downgraded"), "editor"),
  inSession("design.styles", "chat"), inSession("chat.control", "tile"), inSession("maps.loads", "editor"),
  call("design.styles", server("server_no_design")), call("design.styles", server("server_downgraded")),
  call("chat.control", server("server_downgraded")),
  exchange(publishable("publishable_exhausted"), "tile"), exchange(publishable("publishable_hard_stop"), "tile"),
  malformed("sdk.sessions", "{"), malformed("sdk.sessions", "{}"),
  malformed("chat.control", '{"messages":"hello"}'), malformed("chat.control", "not json"),
  // An unknown product (item 88), an unknown type (104), and a route without places (108) may be served.
  doubtful("sdk.sessions", '{"product":"teapot"}'), doubtful("chat.summary", '{"type":"teapot"}'),
  doubtful("chat.route", '{"profile":"walking"}'),
  // The types of these parameters are a gap (item 109), so it may be served.
  call("poi.enrich", server(), { path: "/retrieval/poi/enrich?lat=here&lon=13.4&name=x&category=y" }),
  malformed("design.analyze", '{"prompt":"no dataset"}'),
];

const ORIGINS = ["https://smoke.example"];
const KEY = { kind: "publishable", env: "live", name: "smoke", scopes: ["maps"], allowed_origins: ORIGINS };
const create = (credential: CredentialRef, key: object, is: Body["is"] = "ok"): StepWish =>
  call("keys.create", credential, { via: "authorization", body: { is, text: JSON.stringify(key) } });
const admin = (name: string): CredentialRef => ({ as: "admin", of: `role:${name}` });

/**
 * Refusals of key management (section 7.3). A broken target might create keys, so they need the permit to write. Where
 * the members of the body have other names (item 126), nothing is wrong with a body to another deployment.
 */
// biome-ignore format: a table
export const REFUSED_KEYS: readonly StepWish[] = [
  create({ as: "none" }, KEY),
  create(admin("admin_no_plan"), KEY),
  create(admin("admin_free"), { ...KEY, kind: "server", allowed_origins: [] }),
  create(admin("admin_key_limit"), KEY),
  create(admin("admin_pro"), { ...KEY, scopes: ["maps", "teleport"] }, "unknown"),
  create(admin("admin_pro"), { ...KEY, products: ["teapot"] }, "unknown"),
  create(admin("admin_pro"), { ...KEY, allowed_origins: [] }, "unknown"),
  create(admin("admin_pro"), { ...KEY, scopes: ["maps", "vendor"] }),
];
