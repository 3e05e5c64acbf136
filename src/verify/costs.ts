/**
 * What each rule sends and uses up on a conforming deployment with every role, so that a user can know before anything is sent.
 * Fewer roles mean fewer calls; limits that are met mean some again. A test compares it with what was sent.
 */
import type { Target } from "../target/target.ts";
import type { Rule } from "./rule.ts";

export type Cost = {
  readonly calls: number;
  readonly map_loads: number;
  readonly analyses: number;
  /** Made and removed again. */
  readonly keys: number;
  /** Rules of one name look at the same calls. */
  readonly shared?: string;
};

const cost = (calls: number, more: Partial<Cost> = {}): Cost => ({
  calls,
  map_loads: 0,
  analyses: 0,
  keys: 0,
  ...more,
});

const LIMIT_UNSTATED = 40;
const RATE_UNSTATED = 100;
const EDGE_FOR_S = 4;
const WAVES_MAX = 512;

const limitOf = (target: Target, name: "publishable_expendable" | "publishable_expendable_paid"): number =>
  target.credentials?.[name]?.limit ?? LIMIT_UNSTATED;

/** Sessions that many rules use, minted once, and what is sent before the first rule. */
export const baseCost = (target: Target): Cost => {
  const has = (name: keyof NonNullable<Target["credentials"]>): boolean => target.credentials?.[name] !== undefined;
  const minted = [has("publishable") ? 6 : 0, has("publishable_other_org") ? 2 : 0, has("publishable_no_ai") ? 1 : 0];
  return cost(1 + minted.reduce((sum, n) => sum + n, 0));
};

type Told = Cost | ((target: Target) => Cost);

const burstsOf = (target: Target): Cost =>
  cost(Math.ceil(4 * 1.85 * (target.limits?.global_in_flight ?? 0)), { shared: "bursts" });

const COSTS: Readonly<Record<string, Told>> = {
  "exchange-mints": cost(0, { map_loads: 1 }),
  "session-basemap-style": cost(3, { map_loads: 1, shared: "basemap" }),
  "session-basemap-style-is-told": cost(3, { map_loads: 1, shared: "basemap" }),
  "missing-credential": cost(20),
  "invalid-credential": cost(43),
  "near-miss-of-a-credential": cost(9),
  "key-with-a-foreign-letter": cost(4, { shared: "foreign letters" }),
  "forged-session": cost(8),
  "unparsable-session": cost(19),
  "revoked-key": cost(14),
  "expired-key": cost(14),
  "either-header": cost(8),
  "either-header-at-the-exchange": cost(2),
  "publishable-key-at-runtime": cost(30),
  "publishable-key-at-tiles": cost(2),
  "server-key-in-browser": cost(20),
  "server-key-in-a-sandboxed-frame": cost(2),
  "server-key-is-blocked-by-cors": cost(2),
  "ip-not-allowed": cost(10),
  "exchange-wrong-kind": cost(9),
  "exchange-with-a-session": cost(2),
  "exchange-origin-required": cost(6),
  "exchange-origin-mismatch": cost(5),
  "origin-lookalikes": cost(8),
  "listed-origin-is-not-blocked-by-cors": cost(3),
  "origin-is-matched-exactly": cost(6),
  "preflight-allows-a-credential": cost(2),
  "session-origin-mismatch": cost(20),
  "tile-foreign-origin": cost(2, { map_loads: 1 }),
  "tile-listed-origin": cost(1, { map_loads: 1 }),
  "exchange-insufficient-scope": cost(2),
  "exchange-mints-what-is-in-scope": cost(2),
  "exchange-product-not-allowed": cost(4),
  "exchange-restricted-key-mints-tile": cost(1, { map_loads: 1 }),
  "exchange-tier-capability": cost(4),
  "exchange-downgraded-mints-tile": cost(1, { map_loads: 1 }),
  "runtime-insufficient-scope": cost(5),
  "session-insufficient-scope": cost(6),
  "session-keeps-to-its-product": cost(4),
  "downgraded-session-is-refused": cost(4, { map_loads: 1 }),
  "downgraded-server-key": cost(3),
  "runtime-admits": cost(19, { analyses: 1 }),
  "answers-are-json": cost(7, { analyses: 1 }),
  "exchange-order-kind-before-origin": cost(12),
  "exchange-order-origin-before-product": cost(12),
  "exchange-order-origin-before-quota": cost(4),
  "exchange-order-product-before-quota": cost(2),
  "runtime-order": cost(7),
  "mixed-calls": cost(90),
  "simultaneous-calls-keep-apart": cost(32),
  "poi-optional-parameters": cost(2, { shared: "optional parameters" }),
  "poi-takes-each-parameter": cost(2, { shared: "optional parameters" }),
  "control-optional-fields": cost(2),
  "summary-takes-both-types": cost(2, { shared: "summaries" }),
  "exchange-takes-map-id": cost(1, { shared: "map_id" }),
  "map-id-is-not-malformed": cost(1, { shared: "map_id" }),
  "route-failures-are-200": cost(3, { shared: "routes" }),
  "route-failures-are-told": cost(3, { shared: "routes" }),
  "analysis-prompt-is-optional": cost(1, { analyses: 1, shared: "analyses" }),
  "malformed-exchange-body": cost(2),
  "wrong-product-is-refused": cost(8, { shared: "wrong products" }),
  "wrong-product-is-422": cost(8, { shared: "wrong products" }),
  "malformed-runtime-body": cost(7),
  "incomplete-requests": cost(5),
  "hostile-input": ({ tile_url }) => cost(154, { analyses: 1, map_loads: tile_url === undefined ? 0 : 1 }),
  "quota-exceeded": cost(2),
  "quota-concerns-tile-only": cost(2),
  "refused-mint-is-not-charged": cost(11),
  "origin-of-another-organization": cost(3),
  "allowance-is-per-organization": cost(18, { map_loads: 9 }),
  "organizations-are-served-alike": cost(2),
  "keys-live-publishable-needs-origins": cost(2),
  "keys-free-plan-publishable-only": cost(2),
  "keys-vendor-needs-acknowledgement": cost(6, { keys: 1 }),
  "keys-not-with-a-platform-key": cost(11),
  "keys-unknown-key": cost(4),
  "keys-free-plan-may-publish": cost(2, { keys: 1 }),
  "keys-widening-beyond-tier": cost(6, { keys: 1 }),
  "key-is-created": cost(4, { keys: 1 }),
  "key-products-are-kept": cost(4, { keys: 1 }),
  "server-key-is-created": cost(7, { keys: 1 }),
  "key-origins-are-changed": cost(6, { keys: 1 }),
  "key-is-narrowed-and-widened": cost(8, { keys: 1 }),
  "deleted-key-is-dead": cost(10, { keys: 1 }),
  "key-scopes-are-taken-away": cost(5, { keys: 1 }),
  "deleted-server-key-is-dead": cost(10, { keys: 1 }),
  "key-addresses-are-kept": cost(3, { keys: 1 }),
  "key-of-another-organization": cost(14, { keys: 1 }),
  "allowance-is-exact": (target) => {
    const limit = limitOf(target, "publishable_expendable");
    return cost(limit + 5, { map_loads: limit });
  },
  "other-products-are-not-charged": (target) =>
    cost(5 * limitOf(target, "publishable_expendable_paid") + 3, { map_loads: 2 }),
  "soft-band-and-hard-stop": (target) => {
    const cap = 5 * limitOf(target, "publishable_expendable_paid");
    return cost(cap + 5, { map_loads: cap - 2 });
  },
  "session-origin-null": cost(0),
  "used-up-allowance-stops-loads": cost(4),
  "slots-come-back": (target) => cost(2 * Math.min(burstOf(target), WAVES_MAX) + EDGE_FOR_S * burstOf(target) + 24),
  "overload-is-no-outage": burstsOf,
  "overload-cap-is-per-organization": (target) => cost(2 * Math.ceil(0.75 * (target.limits?.org_in_flight ?? 0)) + 1),
  "overload-ends": (target) => cost(Math.ceil(1.4 * (target.limits?.global_in_flight ?? 0)) + 8),
};

const burstOf = (target: Target): number => target.permits?.load_max_rps ?? RATE_UNSTATED;

/** Rules that look at calls which others make too: each of them would make them. */
const byPhase = ({ id, phase }: Rule, target: Target): Cost => {
  if (phase === "streams" || id.startsWith("stream-")) return cost(3, { shared: "streams" });
  if (phase === "every-answer" || id.startsWith("session-")) return cost(id === "session-ends" ? 1 : 0);
  if (/^(rate-limit|retry-after-holds)/.test(id)) {
    return cost(EDGE_FOR_S * burstOf(target) + 5, { shared: "rate edge" });
  }
  if (phase === "load") return cost(Math.min(WAVES_MAX, 4 * burstOf(target)), { shared: "overload" });
  return cost(1);
};

export const costOf = (rule: Rule, target: Target): Cost => {
  const told = COSTS[rule.id];
  if (told === undefined) return byPhase(rule, target);
  return typeof told === "function" ? told(target) : told;
};
