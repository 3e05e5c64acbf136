/**
 * P2 as a function of the orders of checks: a caller who removes only the cause of the reported refusal gets a later refusal
 * or is admitted. Later means later in the specification's order (order-oracle.ts), not in the core's.
 */
import fc from "fast-check";
import type { AnyRefusalName } from "../../src/contract/refusals.ts";
import { PRODUCT_SCOPE, type Product, routeOf } from "../../src/contract/routes.ts";
import type { Orders } from "../../src/core/order.ts";
import { decide, type Facts, factsArb } from "../model/facts.ts";
import { placeOf } from "../model/order-oracle.ts";

const isExchange = (facts: Facts): boolean => facts.route === "sdk.sessions";
const neededProduct = (facts: Facts): Product =>
  isExchange(facts) ? facts.product : ({ ai: "chat", design: "editor", maps: "tile" } as const)[neededScope(facts)];
const neededScope = (facts: Facts): "ai" | "design" | "maps" =>
  (isExchange(facts) ? PRODUCT_SCOPE[facts.product] : routeOf(facts.route).scope) as "ai";

/** How a caller or an operator removes the cause of each refusal, and nothing else. */
const REPAIR: Partial<Record<AnyRefusalName, (facts: Facts) => Partial<Facts>>> = {
  b2b_overloaded: () => ({ replicaFull: false }),
  unauthenticated: (facts) => {
    if (["none", "nonsense", "oversized"].includes(facts.credential)) {
      return { credential: isExchange(facts) ? "publishable" : "session" };
    }
    if (facts.credential === "session" && !facts.tokenGood) return { tokenGood: true };
    if (facts.keyUnknown) return { keyUnknown: false };
    return facts.keyRevoked ? { keyRevoked: false } : { keyExpired: false };
  },
  key_service_unavailable: () => ({ keyServiceDown: false }),
  sessions_not_configured: () => ({ sessions: "enabled" }),
  sessions_disabled: () => ({ sessions: "enabled" }),
  publishable_key_required: () => ({ credential: "publishable" }),
  publishable_requires_session: () => ({ credential: "session", tokenGood: true }),
  origin_required: () => ({ origin: "listed" }),
  session_origin_mismatch: () => ({ origin: "listed" }),
  tile_access_restricted: () => ({ origin: "listed" }),
  server_key_in_browser: () => ({ origin: "none" }),
  ip_not_allowed: () => ({ address: "listed" }),
  malformed_body: () => ({ bodyMalformed: false }),
  insufficient_scope: (facts) =>
    facts.scopes.includes(neededScope(facts))
      ? { sessionProduct: neededProduct(facts) }
      : { scopes: [...facts.scopes, neededScope(facts)] },
  product_not_allowed: (facts) => ({
    products: [...facts.products, isExchange(facts) ? facts.product : facts.sessionProduct],
  }),
  tier_capability_not_allowed: () => ({ tier: "Pro" }),
  org_overloaded: () => ({ orgFull: false }),
  limiter_unavailable: () => ({ limiterDown: false }),
  rate_limited: (facts) => (facts.rateFull ? { rateFull: false } : { meterFull: false }),
  map_load_quota_exceeded: () => ({ meterFull: false }),
  map_load_hard_stop: () => ({ meterFull: false }),
};

const repaired = (facts: Facts, name: string): Facts => {
  const repair = REPAIR[name as AnyRefusalName];
  if (repair === undefined) throw new Error(`No repair is written for ${name}: add it to REPAIR.`);
  return { ...facts, ...repair(facts) };
};

export const repairNeverLeadsBack = (orders: Orders) =>
  fc.property(factsArb, (facts) => {
    const { name: before } = decide(facts, orders);
    if (before === null) return;
    const mended = repaired(facts, before);
    const { name: after } = decide(mended, orders);
    const [from, to] = [placeOf(before, facts), placeOf(after, mended)];
    if (from === -1) throw new Error(`expected a refusal with a cause, got ${before}`);
    if (to <= from) throw new Error(`expected a later refusal than ${before} once that was mended, got ${after}`);
  });

/** More causes than a call can have. */
const REPAIRS_MAX = 30;

export const repairsLeadIn = (orders: Orders) =>
  fc.property(factsArb, (facts) => {
    let now = facts;
    for (let mended = 0; mended < REPAIRS_MAX; mended += 1) {
      const { name } = decide(now, orders);
      if (name === null) return;
      now = repaired(now, name);
    }
    throw new Error(`expected to be admitted, got ${decide(now, orders).name} after ${REPAIRS_MAX} repairs`);
  });
