/**
 * P2: the order of checks is total. Whoever removes the cause of the reported refusal, and nothing else, comes to a later
 * check or in, never back to an earlier one; so a caller who mends one thing after another always arrives.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { PRODUCT_SCOPE, type Product, routeOf } from "../src/contract/routes.ts";
import type { AnyRefusalName } from "../src/contract/subcodes.ts";
import { type Decided, decide, type Facts, factsArb, HEALTHY } from "./support/facts.ts";
import { law } from "./support/law.ts";

const RUNS = { quick: 5_000, nightly: 300_000 };

const isExchange = (facts: Facts): boolean => facts.route === "sdk.sessions";
const neededProduct = (facts: Facts): Product =>
  isExchange(facts) ? facts.product : ({ ai: "chat", design: "editor", maps: "tile" } as const)[neededScope(facts)];
const neededScope = (facts: Facts): "ai" | "design" | "maps" =>
  (isExchange(facts) ? PRODUCT_SCOPE[facts.product] : routeOf(facts.route).scope) as "ai";

/** What a caller or an operator would mend, and no more than that. */
const REPAIR: Partial<Record<AnyRefusalName, (facts: Facts) => Partial<Facts>>> = {
  b2b_overloaded: () => ({ replicaFull: false }),
  unauthenticated: (facts) => ({
    credential: ["none", "nonsense", "oversized"].includes(facts.credential)
      ? isExchange(facts)
        ? "publishable"
        : "session"
      : facts.credential,
    tokenGood: true,
    keyUnknown: false,
    keyRevoked: false,
    keyExpired: false,
  }),
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
  insufficient_scope: (facts) => ({
    scopes: [...facts.scopes, neededScope(facts)],
    sessionProduct: neededProduct(facts),
  }),
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

/** Refusals of one check stand in an order of their own (B6; rate before meter). */
const WITHIN = [
  "insufficient_scope",
  "product_not_allowed",
  "tier_capability_not_allowed",
  "rate_limited",
  "map_load_quota_exceeded",
  "map_load_hard_stop",
];
const rankOf = ({ rank, name }: Decided): number => rank + (name === null ? 0 : (WITHIN.indexOf(name) + 1) / 10);

const repaired = (facts: Facts, name: string): Facts => {
  const repair = REPAIR[name as AnyRefusalName];
  if (repair === undefined) throw new Error(`No repair is written for ${name}: add it to REPAIR.`);
  return { ...facts, ...repair(facts) };
};

law(
  "P2 removing the cause of the reported refusal never reveals an earlier one",
  () =>
    fc.property(factsArb, (facts) => {
      const before = decide(facts);
      if (before.name === null) return;
      const after = decide(repaired(facts, before.name));
      // The two causes of a rate refusal (the key's rate, then a capped meter) share a name.
      if (before.name === "rate_limited" && after.name === "rate_limited") return;
      expect(rankOf(after)).toBeGreaterThan(rankOf(before));
    }),
  RUNS,
);

law(
  "P2 mending one reported cause after another leads in",
  () =>
    fc.property(factsArb, (facts) => {
      let now = facts;
      for (let mended = 0; mended < 20; mended += 1) {
        const { name } = decide(now);
        if (name === null) return;
        now = repaired(now, name);
      }
      throw new Error(`still ${decide(now).name} after 20 repairs`);
    }),
  RUNS,
);

law(
  "a healthy call is admitted whatever cannot concern it",
  () =>
    fc.property(factsArb, ({ address, sessionProduct, tokenGood, designIsCapped }) => {
      // A publishable key in a mint: addresses, tokens and the meter of analyses are none of its business.
      const facts = { ...HEALTHY, address, sessionProduct, tokenGood, designIsCapped };
      expect(decide(facts).name).toBeNull();
    }),
  { quick: 500, nightly: 10_000 },
);
