/**
 * An independent copy of the order of checks, written from the specification (section 4.1, 5, 7.2) and requirements.md, part
 * B, and not from the core: two lists of rules, of which the first that applies decides. Imports only types of the product.
 */
import type { Facts } from "./facts.ts";

type Rule = readonly [applies: (facts: Facts) => boolean, answer: string];

const NEEDS = { chat: "ai", editor: "design", viewer: null, tile: "maps" } as const;
const ROUTE_NEEDS = { chat: "ai", poi: "ai", design: "design", maps: "maps" } as const;
const needs = (facts: Facts) => ROUTE_NEEDS[facts.route.split(".")[0] as keyof typeof ROUTE_NEEDS];
const stores = (facts: Facts, product: Facts["product"]) =>
  facts.products.includes(product) || (facts.products.length === 0 && product !== "viewer");
const isSession = (facts: Facts) => facts.credential === "session";
const strange = (facts: Facts) => ["foreign", "lookalike", "null"].includes(facts.origin);
const isMapLoad = (facts: Facts) => facts.route === "maps.loads" || facts.route === "sdk.sessions";

const FRONT: Rule[] = [
  [(f) => f.replicaFull, "b2b_overloaded"],
  [(f) => f.credential === "none" || f.credential === "nonsense" || f.credential === "oversized", "unauthenticated"],
  // A token that does not verify names no key, so the key service is never called for it.
  [(f) => isSession(f) && !f.tokenGood, "unauthenticated"],
  [(f) => f.keyServiceDown, "key_service_unavailable"],
  [(f) => f.keyUnknown, "unauthenticated"],
  [(f) => f.keyRevoked, "unauthenticated"],
  [(f) => f.keyExpired, "unauthenticated"],
];

const LIMITER: Rule[] = [
  [(f) => f.limiterDown, "limiter_unavailable"],
  [(f) => f.rateFull, "rate_limited"],
  [(f) => f.meterFull && f.designIsCapped && f.route === "design.analyze", "rate_limited"],
];

const EXCHANGE: Rule[] = [
  ...FRONT,
  [(f) => f.sessions === "not_configured", "sessions_not_configured"],
  [(f) => f.sessions === "disabled", "sessions_disabled"],
  [(f) => f.credential !== "publishable", "publishable_key_required"],
  [(f) => f.origin === "none", "origin_required"],
  [strange, "session_origin_mismatch"],
  [(f) => f.bodyMalformed, "malformed_body"],
  [(f) => NEEDS[f.product] !== null && !(f.scopes as unknown[]).includes(NEEDS[f.product]), "insufficient_scope"],
  [(f) => !stores(f, f.product), "product_not_allowed"],
  [(f) => f.tier === null || (f.tier === "Free" && f.product !== "tile"), "tier_capability_not_allowed"],
  [(f) => f.orgFull, "org_overloaded"],
  ...LIMITER,
  [(f) => f.product === "tile" && f.meterFull && f.tier === "Free", "map_load_quota_exceeded"],
  [(f) => f.product === "tile" && f.meterFull, "map_load_hard_stop"],
];

const RUNTIME: Rule[] = [
  ...FRONT,
  [(f) => f.credential === "publishable", "publishable_requires_session"],
  [(f) => f.credential === "server" && f.origin !== "none", "server_key_in_browser"],
  [(f) => f.credential === "server" && f.address === "foreign", "ip_not_allowed"],
  [(f) => isSession(f) && strange(f) && f.route.startsWith("maps."), "tile_access_restricted"],
  [(f) => isSession(f) && strange(f), "session_origin_mismatch"],
  [(f) => !f.scopes.includes(needs(f)), "insufficient_scope"],
  [(f) => isSession(f) && NEEDS[f.sessionProduct] !== needs(f), "insufficient_scope"],
  [(f) => isSession(f) && !stores(f, f.sessionProduct), "product_not_allowed"],
  // Free admits publishable keys and the product tile, and nothing else (4.1, 2.3).
  [(f) => f.tier === null, "tier_capability_not_allowed"],
  [(f) => f.tier === "Free" && !(isSession(f) && f.sessionProduct === "tile"), "tier_capability_not_allowed"],
  [(f) => f.orgFull, "org_overloaded"],
  [(f) => f.bodyMalformed, "malformed_body"],
  ...LIMITER,
  [(f) => isMapLoad(f) && f.meterFull && f.tier === "Free", "map_load_quota_exceeded"],
  [(f) => isMapLoad(f) && f.meterFull, "map_load_hard_stop"],
];

const rulesFor = (facts: Facts): readonly Rule[] => (facts.route === "sdk.sessions" ? EXCHANGE : RUNTIME);

/** The refusal that the specification demands, `null` for an admitted call. */
export const demanded = (facts: Facts) => rulesFor(facts).find(([applies]) => applies(facts))?.[1] ?? null;

/**
 * The place of a refusal in the specification's order: the index of the first rule that applies and has this answer;
 * `Infinity` for an admitted call, `-1` for a refusal that no rule explains.
 */
export const placeOf = (name: string | null, facts: Facts): number =>
  name === null
    ? Number.POSITIVE_INFINITY
    : rulesFor(facts).findIndex(([applies, answer]) => answer === name && applies(facts));
