/**
 * Correct calls of every route, and one wrong call for each static refusal that the target's roles allow (requirements.md,
 * part D). Each round visits all cases once; charged cases are in the first round only, unless quota may be burnt.
 */
import { type Product, type RouteName, routeOf } from "../../contract/routes.ts";
import { minting, runtimeCallers } from "../callers/callers.ts";
import { type CallerName, oncePerView, type TargetView } from "../callers/target-view.ts";
import { constant, type Profile, profileCalls } from "../load-profiles.ts";
import { saltOf, whole } from "../random.ts";
import { type CredentialRef, type OriginRef, type Step, type StepWish, stepOf } from "../step.ts";
import { costsOfPlan, type ProfileWish, type Reach, storyOf } from "../story.ts";

// One call for every answer that a caller can provoke alone (sections 5 to 7); `smoke` makes each under load.

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

const SALT = saltOf("smoke");
/** The most to spend if the target file states no budget and does not permit `quota_burn`. */
const MAP_LOADS = 20;
const ANALYSES = 3;
/** Charged calls are made in every round if the budget pays for this many rounds of them, else in the first round only. */
const ROUNDS = 10;

/** A tenant's keys may do what those of `server` and `publishable` may, so the first tenant stands in for them. */
const standIn = (view: TargetView, role: string): CallerName | undefined => {
  const callers = role === "server" ? runtimeCallers(view) : role === "publishable" ? minting(view) : [];
  return callers.find(({ kind, name }) => kind === role && name.startsWith("tenant:"))?.name;
};

/** The call with a caller of this target; empty if the target lacks the role, its origin or the route. */
const cast = (view: TargetView, wish: StepWish): StepWish[] => {
  const { route, credential, origin } = wish;
  if ((route === "maps.tiles" && view.tiles !== true) || (route === "maps.loads" && view.mapLoads !== true)) return [];
  if (!("of" in credential)) return [wish];
  const wanted = credential.of.slice("role:".length);
  const found = view.roles[wanted];
  // A browser's call needs an origin of the key's allowlist (items 71, 151).
  const needsOrigin = credential.as === "session" || origin === "listed";
  if (found !== undefined) return needsOrigin && !found.hasOrigin ? [] : [wish];
  const of = standIn(view, wanted);
  return of === undefined ? [] : [{ ...wish, credential: { ...credential, of } }];
};

/** The meter that the call would charge if admitted; minting its session is not counted. */
const chargeOf = ({ route, product }: StepWish): "map_loads" | "design_analyses" | undefined =>
  routeOf(route).meter ?? (route === "sdk.sessions" && product === "tile" ? "map_loads" : undefined);

const usesTileSession = ({ credential }: StepWish) => credential.as === "session" && credential.product === "tile";

const programOf = oncePerView((view: TargetView) => {
  const { quotaBurn, writes } = view.permits;
  const { mapLoads, analyses } = view.budget ?? {};
  const unstated = (few: number): number => (quotaBurn ? Number.POSITIVE_INFINITY : few);
  const room = { map_loads: mapLoads ?? unstated(MAP_LOADS), design_analyses: analyses ?? unstated(ANALYSES) };
  /** The charges of one round with the charged calls, without the one for the tile session. */
  const charged = { map_loads: 0, design_analyses: 0 };
  const mayMint = room.map_loads >= 1;
  const correct = CORRECT_CALLS.flatMap((wish) => cast(view, wish)).filter((wish) => {
    const meter = chargeOf(wish);
    if (meter === undefined) return true;
    const fits = charged[meter] + (meter === "map_loads" && mayMint ? 1 : 0) + 1 <= room[meter];
    if (fits) charged[meter] += 1;
    return fits;
  });
  const others = [...REFUSED_CALLS, ...(writes ? REFUSED_KEYS : [])].flatMap((wish) => cast(view, wish));
  const affordable = (wish: StepWish): boolean => mayMint || !usesTileSession(wish);
  const first = [...correct, ...others].filter(affordable);
  const isPlenty =
    quotaBurn &&
    room.map_loads >= ROUNDS * charged.map_loads &&
    room.design_analyses >= ROUNDS * charged.design_analyses;
  const free = correct.filter((wish) => chargeOf(wish) === undefined);
  return {
    first,
    later: isPlenty ? first : [...free, ...others].filter(affordable),
    charged,
    tileSessions: first.some(usesTileSession) ? 1 : 0,
    hasCorrect: correct.length > 0,
  };
});

/** Position `at` of a round, shuffled: an affine walk through the cases, so that no round has to be stored. */
const shuffled = (seed: number, round: number, at: number, count: number): number => {
  const coprime = (step: number): boolean => {
    let a = step;
    let b = count;
    while (b !== 0) [a, b] = [b, a % b];
    return a === 1;
  };
  let stride = 1 + whole(seed, round, SALT, count);
  while (!coprime(stride)) stride += 1;
  return (whole(seed, round, SALT + 1, count) + at * stride) % count;
};

export const smokeRound = (view: TargetView): number => programOf(view).first.length;

const plan = (seed: number, i: number, view: TargetView): Step[] => {
  const { first, later } = programOf(view);
  const isFirst = i < first.length;
  const [cases, n] = isFirst ? [first, i] : [later, i - first.length];
  const round = isFirst ? 0 : 1 + Math.floor(n / cases.length);
  const wish = cases[shuffled(seed, round, n % cases.length, cases.length)];
  return wish === undefined ? [] : [stepOf(view, i, wish)];
};

/** Refusals that the role `publishable` provokes by the origin it sends. */
const BY_ORIGIN = ["403 origin_required", "403 session_origin_mismatch"] as const;
const NO_PAGE = "neither the role `publishable` nor a tenant has a publishable key with its `origin`";

/** The outcomes that one whole round meets, however a deployment fills the gaps of the specification. */
const reachOf = (view: TargetView, wish?: ProfileWish): Reach => {
  const { first, hasCorrect } = programOf(view);
  const calls = profileCalls(smoke.profile(view, wish) as Profile);
  if (calls < first.length) {
    const reason = `${calls.toFixed(0)} calls are no whole round of ${first.length}`;
    return { all: [], oneOf: [], beyond: ["200", "401", ...BY_ORIGIN].map((outcome) => ({ outcome, reason })) };
  }
  const hasPage = first.some(({ credential, origin }) => credential.as === "publishable" && origin === "foreign");
  return {
    all: [...(hasCorrect ? ["200"] : []), "401", ...(hasPage ? BY_ORIGIN : [])],
    oneOf: [],
    beyond: hasPage ? [] : BY_ORIGIN.map((outcome) => ({ outcome, reason: NO_PAGE })),
  };
};

export const smoke = storyOf({
  name: "smoke",
  purpose: "every route once as it should be called, and every refusal that the caller can provoke without load",
  missing: (view) =>
    programOf(view).first.some(({ credential }) => "of" in credential)
      ? []
      : ["at least one role under `credentials`, or a tenant that is not on Free"],
  profile: (view, { ratePerS = 25, durationS, maxPerS } = {}) => {
    const rate = Math.min(ratePerS, maxPerS ?? ratePerS);
    return constant(rate, durationS ?? Math.max(8, Math.ceil((3 * smokeRound(view)) / rate)));
  },
  reaches: reachOf,
  plan,
  // Refused calls are not charged (item 222), whatever they asked for.
  costs: (view, calls) => {
    const { first, later, charged, tileSessions } = programOf(view);
    const rounds = later === first ? calls / Math.max(1, first.length) : 1;
    const costs = costsOfPlan(plan, smoke.sessions(view).length, view, calls);
    const map_loads = charged.map_loads * rounds + tileSessions;
    return { ...costs, map_loads, analyses: charged.design_analyses * rounds };
  },
  sessions: (view) => {
    const wanted = programOf(view).first.flatMap(({ credential }) =>
      credential.as === "session" ? [{ of: credential.of, product: credential.product }] : [],
    );
    return [...new Map(wanted.map((session) => [`${session.of} ${session.product}`, session])).values()];
  },
});
