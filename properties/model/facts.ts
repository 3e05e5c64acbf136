/**
 * The facts of one call, in terms of neither the core nor its oracle, so that both can decide about the same facts. `decide`
 * at the end runs the core on facts: it builds the call, answers what the core asks for, and records what happened.
 */
import fc from "fast-check";
import { type Product, ROUTES, type RouteName, routeOf, type Scope } from "../../src/contract/routes.ts";
import { type Ask, Call, type KeyRecord, UNAVAILABLE } from "../../src/core/call.ts";
import { advance, HEALTHY_ORDERS, type Orders } from "../../src/core/order.ts";
import { type Caps, fixedShedder, type Shedder } from "../../src/core/shedding.ts";
import { type Drawn, NOW_MS, productArb, productsArb, scopesArb, tierArb } from "./arbitraries.ts";

type CallRoute = Exclude<RouteName, `keys.${string}`>;

/** Any value of each fact but the route. */
const ANY = {
  replicaFull: fc.boolean(),
  orgFull: fc.boolean(),
  credential: fc.constantFrom("none", "nonsense", "oversized", "publishable", "server", "session"),
  /** Whether a session token's signature and lifetime are valid. */
  tokenGood: fc.boolean(),
  /** The product that the session was minted for. */
  sessionProduct: productArb,
  keyServiceDown: fc.boolean(),
  keyUnknown: fc.boolean(),
  keyRevoked: fc.boolean(),
  keyExpired: fc.boolean(),
  /** Whether the record's status says that the key expired, or only its `expires_at`. */
  expiredByStatus: fc.boolean(),
  sessions: fc.constantFrom("enabled", "disabled", "not_configured"),
  origin: fc.constantFrom("none", "listed", "respelled", "foreign", "lookalike", "null"),
  address: fc.constantFrom("unrestricted", "listed", "foreign"),
  scopes: scopesArb,
  products: productsArb,
  tier: tierArb,
  bodyMalformed: fc.boolean(),
  /** The product that an exchange asks for. */
  product: productArb,
  limiterDown: fc.boolean(),
  rateFull: fc.boolean(),
  meterFull: fc.boolean(),
  designIsCapped: fc.boolean(),
};
const FACTS = Object.keys(ANY) as (keyof typeof ANY)[];
export type Facts = { route: CallRoute } & { [K in keyof typeof ANY]: Drawn<(typeof ANY)[K]> };

export const HEALTHY: Facts = {
  route: "sdk.sessions",
  replicaFull: false,
  orgFull: false,
  credential: "publishable",
  tokenGood: true,
  sessionProduct: "chat",
  keyServiceDown: false,
  keyUnknown: false,
  keyRevoked: false,
  keyExpired: false,
  expiredByStatus: false,
  sessions: "enabled",
  origin: "listed",
  address: "unrestricted",
  scopes: ["ai", "design", "maps", "vendor"],
  products: [],
  tier: "Pro",
  bodyMalformed: false,
  product: "chat",
  limiterDown: false,
  rateFull: false,
  meterFull: false,
  designIsCapped: false,
};

const CALL_ROUTES = (Object.keys(ROUTES) as RouteName[]).filter(
  (name): name is CallRoute => routeOf(name).surface !== "management",
);
const SESSION_PRODUCT: Readonly<Record<Scope, Product>> = {
  ai: "chat",
  design: "editor",
  maps: "tile",
  vendor: "chat",
};

/** Generates a call with valid facts (a mint, or a runtime call by either credential), or a mint that uses a session token. */
const healthyArb: fc.Arbitrary<Facts> = fc.oneof(
  fc
    .constantFrom<Partial<Facts>>(
      { product: "tile" },
      { product: "tile", tier: "Free" },
      { product: "chat" },
      { credential: "session" },
    )
    .map((facts) => ({ ...HEALTHY, ...facts })),
  fc
    .record({
      route: fc.constantFrom(...CALL_ROUTES.filter((name) => name !== "sdk.sessions")),
      credential: fc.constantFrom("server" as const, "session" as const),
    })
    .map(({ route, credential }) => ({
      ...HEALTHY,
      route,
      credential,
      origin: credential === "server" ? ("none" as const) : ("listed" as const),
      sessionProduct: SESSION_PRODUCT[routeOf(route).scope as Scope],
    })),
);

/**
 * A healthy call with some of its facts drawn anew: few, so that the deep checks are reached as often as the first, and
 * several, because it takes two failing checks to see which of them decides. Without fast-check's bias towards small
 * values, which would draw the same few facts over and over.
 */
export const factsArb: fc.Arbitrary<Facts> = fc.noBias(
  fc
    .tuple(healthyArb, fc.record(ANY), fc.subarray(FACTS, { minLength: 1, maxLength: 8 }))
    .map(([healthy, any, drawn]) => ({ ...healthy, ...Object.fromEntries(drawn.map((fact) => [fact, any[fact]])) })),
);

const SECRETS: Record<Facts["credential"], string | null> = {
  none: null,
  nonsense: "Basic-abcdefghijkl",
  oversized: `svc_sk_live_${"a".repeat(300)}`,
  publishable: "svc_pk_live_0123456789abcdef",
  server: "svc_sk_live_0123456789abcdef",
  session: "svc_sess_live_eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJrIn0.c2lnbmF0dXJl",
};

/** The Origin header for each fact. */
export const ORIGIN: Record<Facts["origin"], string | null> = {
  none: null,
  listed: "https://app.example",
  respelled: "HTTPS://App.Example:443",
  foreign: "https://evil.example",
  lookalike: "https://app.example.evil.example",
  null: "null",
};

export const ALLOWANCE = 10;
const USED = { Free: ALLOWANCE, Pro: 5 * ALLOWANCE };

const keyOf = (facts: Facts): KeyRecord => ({
  id: "key_1",
  org_id: "org_a",
  kind: facts.credential === "server" ? "server" : "publishable",
  env: "live",
  name: "",
  scopes: facts.scopes,
  products: facts.products,
  allowed_origins: ["https://other.example", "https://app.example"],
  allowed_ips: facts.address === "unrestricted" ? [] : facts.address === "listed" ? ["10.0.0.0/8"] : ["192.0.2.7"],
  vendor_acknowledged: true,
  status: facts.keyRevoked ? "revoked" : facts.keyExpired && facts.expiredByStatus ? "expired" : "valid",
  created_at: NOW_MS - 1000,
  expires_at: facts.keyExpired && !facts.expiredByStatus ? NOW_MS : NOW_MS + 1,
  last4: "cdef",
});

const callOf = (facts: Facts, makeShedder: (caps: Caps) => Shedder = fixedShedder): Call => {
  const shedder = makeShedder({ globalInFlight: facts.replicaFull ? 0 : 1, orgInFlight: facts.orgFull ? 0 : 1 });
  const deployment = {
    sessions: facts.sessions,
    rate: { perS: 50, burst: 100 },
    designCap: facts.designIsCapped ? 3 : null,
  };
  const { route, credential, origin } = facts;
  const address = facts.address === "foreign" ? "203.0.113.9" : "10.1.2.3";
  const head = {
    readCaller: () => ({ credential: SECRETS[credential], origin: ORIGIN[origin], address }),
    nowMs: () => NOW_MS,
  };
  return new Call(routeOf(route), head, deployment, shedder);
};

/** Answers the core's question according to the facts. */
const answer = (call: Call, ask: Ask, facts: Facts): void => {
  if (ask.ask === "session") {
    const { sessionProduct: product } = facts;
    call.session = facts.tokenGood ? { keyId: "key_1", orgId: "org_a", product, expiresAtS: 1, id: "jti" } : null;
  } else if (ask.ask === "key" || ask.ask === "key-by-id") {
    const org = { id: "org_a", tier: facts.tier, map_load_allowance: ALLOWANCE, key_limit: 3 };
    const snapshot = { key: keyOf(facts), org: { ...org, basemap_style_id: null, in_flight_cap: null } };
    call.lookup = facts.keyServiceDown ? UNAVAILABLE : facts.keyUnknown ? null : snapshot;
  } else if (ask.ask === "body") {
    const value = call.route.surface === "exchange" ? { product: facts.product } : {};
    call.body = facts.bodyMalformed ? { ok: false, errors: [] } : { ok: true, value };
  } else if (ask.ask === "take") {
    // An ideal limiter: one atomic step, rate first, then meter.
    const used = USED[facts.tier ?? "Free"];
    if (facts.limiterDown) call.taken = UNAVAILABLE;
    else if (ask.rate !== null && facts.rateFull) call.taken = { verdict: "rate_limited", wait_ms: 1500 };
    else if (ask.meter !== null && ask.meter.cap !== null && facts.meterFull) {
      call.taken = { verdict: "over_cap", used, window: "2026-05" };
    } else call.taken = { verdict: "taken", used: ask.meter === null ? null : 1, window: "2026-05" };
  }
};

/** Runs the core on facts. `refusal`: `null` if admitted. `takes`: what the limiter was asked for. */
export const decide = (
  facts: Facts,
  orders: Orders = HEALTHY_ORDERS,
  makeShedder: (caps: Caps) => Shedder = fixedShedder,
) => {
  const call = callOf(facts, makeShedder);
  const asked: Ask["ask"][] = [];
  const takes: Extract<Ask, { ask: "take" }>[] = [];
  for (;;) {
    const next = advance(call, orders);
    if (next === null || "refuse" in next) return { refusal: next, name: next?.refuse ?? null, asked, takes, call };
    asked.push(next.ask);
    if (next.ask === "take") takes.push(next);
    answer(call, next, facts);
  }
};
