/**
 * The judges' own order of checks, independent of the platform: every answer that the specification allows a call, by its
 * caller's facts (requirements.md, part B). `ours`: only the reference's reading; otherwise every reading of part C.
 */
import type { CallFacts } from "../../contract/call-facts.ts";
import { type AnyRefusalName, admissionOf, isUnanswered, outcomeOf } from "../../contract/refusals.ts";
import { PRODUCT_SCOPE, type Product, type Route, routeOf, type Scope } from "../../contract/routes.ts";
import { streamResult } from "../../contract/streams.ts";
import type { CallLine } from "../../history/line.ts";
import { isAdmitted, isDefinite } from "./moments.ts";

/** Logical or of facts that may be unknown (`undefined`). */
export const either = (...facts: (boolean | undefined)[]): boolean | undefined =>
  facts.includes(true) ? true : facts.includes(undefined) ? undefined : false;

/** Free admits only the product `tile` and publishable keys (items 48, 75; A15); without a plan nothing is admitted. */
const FREE_PRODUCTS: readonly Product[] = ["tile"];
const FREE_SCOPES: readonly Scope[] = ["maps"];

/** Which capabilities a call lacks; `undefined`: unknown. */
type Lacks = Record<"scope" | "product" | "tier", boolean | undefined>;
const UNKNOWN: Lacks = { scope: undefined, product: undefined, tier: undefined };

const productMissing = (facts: CallFacts, product: Product | undefined): boolean | undefined => {
  if (product === undefined || facts.products === undefined) return undefined;
  // Item 57, A7: an empty list restricts only `viewer`.
  return facts.products.length === 0 ? product === "viewer" : !facts.products.includes(product);
};

const scopeMissing = (facts: CallFacts, scope: Scope | null): boolean | undefined => {
  if (scope === null) return false;
  return facts.scopes === undefined ? undefined : !facts.scopes.includes(scope);
};

const tierRefuses = (facts: CallFacts, scope: Scope | null, product?: Product): boolean | undefined => {
  if (facts.tier === undefined) return undefined;
  if (facts.tier === null) return true;
  if (facts.tier === "Pro") return false;
  if (facts.credential === "server") return true;
  const isFreeProduct = product === undefined || FREE_PRODUCTS.includes(product);
  return !isFreeProduct || !(scope === null || FREE_SCOPES.includes(scope));
};

const exchangeLacks = (facts: CallFacts, product: Product): Lacks => {
  const scope = PRODUCT_SCOPE[product];
  const tier = tierRefuses(facts, scope, product);
  return { scope: scopeMissing(facts, scope), product: productMissing(facts, product), tier };
};

/** The reference's sessions carry only their product's scope (A16). Products do not restrict a server key. */
const runtimeLacks = (facts: CallFacts, scope: Scope | null, ours: boolean): Lacks => {
  if (facts.credential !== "session") {
    return { scope: scopeMissing(facts, scope), product: false, tier: tierRefuses(facts, scope) };
  }
  const { product } = facts;
  const other = product === undefined ? undefined : PRODUCT_SCOPE[product] !== scope;
  const notOfProduct = scope === null ? false : other === true && !ours ? undefined : other;
  return {
    scope: either(scopeMissing(facts, scope), notOfProduct),
    // A product may be taken from the key after the session was minted.
    product: productMissing(facts, product),
    tier: product === undefined && facts.tier === "Free" ? undefined : tierRefuses(facts, scope, product),
  };
};

/**
 * The capabilities that a call lacks by its caller's facts: they must be stored in the key and admitted by the tier
 * (specification 2.3, 4.1, 7.2; table B6). The call must have a valid credential of the right kind.
 */
export const lacksOf = (call: CallLine, facts: CallFacts, ours: boolean): Lacks => {
  if (call.route === "-") return UNKNOWN;
  const route = routeOf(call.route);
  if (route.surface !== "exchange") return runtimeLacks(facts, route.scope, ours);
  return facts.product === undefined ? UNKNOWN : exchangeLacks(facts, facts.product);
};

class Walk {
  readonly legal = new Set<string>();
  #decided = false;

  /** Adds outcomes that depend on load, faults or settings. */
  may(...outcomes: string[]): void {
    this.check(undefined, ...outcomes);
  }

  /** `true`: certainly fails here, so no later check decides. `undefined`: unknown. */
  check(fails: boolean | undefined, ...outcomes: string[]): void {
    if (this.#decided || fails === false) return;
    for (const outcome of outcomes) this.legal.add(outcome);
    this.#decided = fails === true;
  }

  answers(...outcomes: string[]): ReadonlySet<string> {
    this.may(...outcomes);
    return this.legal;
  }
}

const O = (name: AnyRefusalName): string => outcomeOf(name);

const UNAUTHENTICATED = O("unauthenticated");
const MALFORMED = O("malformed_body");
/** Refusals for a capability that the key or its tier lacks. */
export const CAPABILITY = [O("insufficient_scope"), O("product_not_allowed"), O("tier_capability_not_allowed")];
const SESSIONS_OFF = [O("sessions_not_configured"), O("sessions_disabled")];
const QUOTA = { free: O("map_load_quota_exceeded"), paid: O("map_load_hard_stop") };

type Reading = { ours: boolean; stateUnsettled: boolean };

/** Credentials that are refused by their form, before any look-up. */
const FOREIGN: readonly CallFacts["credential"][] = ["none", "garbage", "admin"];

const isForeignOrigin = (facts: CallFacts): boolean => facts.origin === "foreign" || facts.origin === "null";

/** The checks that all routes begin with (B1, steps 1 to 4). */
const front = (walk: Walk, facts: CallFacts, { ours, stateUnsettled }: Reading): void => {
  walk.may(O("b2b_overloaded"));
  // Another deployment may ask the limiter before it checks the credential (A2) and look up a malformed credential
  // (item 58), so their refusals are legal first. A gateway may answer 503 `{}`.
  if (!ours) walk.may(O("key_service_unavailable"), O("limiter_unavailable"), O("rate_limited"));
  walk.check(FOREIGN.includes(facts.credential), UNAUTHENTICATED);
  walk.may(O("key_service_unavailable"));
  if (!ours) walk.may(O("org_overloaded"));
  walk.check(facts.credential === "unknown", UNAUTHENTICATED);
  const { state } = facts;
  // A14: sessions of a revoked key may live on. Item 142: records may be one revocation budget old.
  const stillServed = state === "revoked" && (stateUnsettled || (!ours && facts.credential === "session"));
  walk.check(state === undefined || stillServed ? undefined : state !== "valid", UNAUTHENTICATED);
};

/** Open are the viewer and a missing plan (A7, item 158), sessions frozen at the mint (A14), server keys on Free (A15). */
export const isOpenHere = ({ product, tier, credential }: CallFacts, lacksTier: boolean | undefined) =>
  tier === null ||
  product === "viewer" ||
  (credential === "session" && lacksTier !== false) ||
  (credential === "server" && tier !== "Pro");

/** Check 3 of the exchange and the scope check of runtime calls: table B6. */
const capability = (walk: Walk, call: CallLine, facts: CallFacts, ours: boolean): void => {
  const { scope, product, tier } = lacksOf(call, facts, ours);
  if (ours) {
    walk.check(scope, O("insufficient_scope"));
    walk.check(product, O("product_not_allowed"));
    walk.check(tier, O("tier_capability_not_allowed"));
    return;
  }
  // A5, A16, A17: each of the three refusals that applies is legal.
  const open = isOpenHere(facts, tier);
  const narrowed = facts.credential === "session" && product === true ? undefined : product;
  const fails = open && scope !== true ? undefined : either(scope, narrowed, tier);
  walk.check(fails, ...CAPABILITY);
};

const limiter = (walk: Walk, facts: CallFacts, metered: boolean | undefined, ours: boolean): void => {
  walk.may(O("limiter_unavailable"), O("rate_limited"));
  if (metered === false) return;
  if (facts.tier !== "Pro") walk.may(QUOTA.free);
  if (facts.tier !== "Free") walk.may(QUOTA.paid);
  // A8: every tier may be refused at the allowance.
  if (!ours) walk.may(QUOTA.free);
};

const exchange = (call: CallLine, facts: CallFacts, reading: Reading): ReadonlySet<string> => {
  const { ours } = reading;
  const walk = new Walk();
  const { product } = facts;
  const wrongBody = facts.body === "unknown" && !ours ? undefined : facts.body !== "ok";
  if (!ours) {
    // A2: body or settings may be checked first. A7: anonymous viewers may be admitted.
    if (wrongBody !== false) walk.may(MALFORMED);
    walk.may(...SESSIONS_OFF);
    if (product === "viewer") walk.may("200", "201", ...CAPABILITY);
  }
  front(walk, facts, reading);
  walk.may(...SESSIONS_OFF);
  const wrongKind = facts.credential !== "publishable";
  if (!ours && wrongKind && facts.origin !== "none") walk.may(O("server_key_in_browser"));
  if (!ours && wrongKind && facts.ip !== "allowed") walk.may(O("ip_not_allowed"));
  // A4: a session token may be no credential at all for the exchange.
  if (!ours && facts.credential === "session") walk.may(UNAUTHENTICATED);
  walk.check(wrongKind, O("publishable_key_required"));
  if (!ours && facts.origin === "null") walk.may(O("origin_required")); // item 53
  walk.check(facts.origin === "none", O("origin_required"));
  const mismatch = [O("session_origin_mismatch"), ...(ours ? [] : [O("tile_access_restricted")])];
  walk.check(isForeignOrigin(facts), ...mismatch);
  // Item 88: a missing product may be one that is not admitted.
  if (!ours && product === undefined) walk.may(...CAPABILITY);
  walk.check(wrongBody, MALFORMED);
  capability(walk, call, facts, ours);
  walk.may(O("org_overloaded"));
  limiter(walk, facts, product === undefined ? undefined : product === "tile", ours);
  return walk.answers("200", ...(ours ? [] : ["201"]));
};

/** Catalogs and tiles take no body. */
const bodyIsWrong = (call: CallLine, route: Route, facts: CallFacts, ours: boolean): boolean | undefined => {
  if (!ours && (facts.body === "unknown" || (route.open === true && facts.body === "ok"))) return undefined;
  if (call.route === "poi.enrich") return facts.body === "none" ? undefined : facts.body === "malformed";
  if (route.method === "GET") return facts.body === "malformed" ? undefined : false;
  if (call.route === "maps.loads") return facts.body === "ok" ? false : undefined;
  return facts.body !== "ok";
};

/** A query is no body (item 202), and nothing may be known of a place: how that is said is not specified. */
export const refusesTheQuery = ({ route, outcome }: CallLine) => route === "poi.enrich" && /^40[04] /.test(outcome);

const runtime = (call: CallLine, route: Route, facts: CallFacts, reading: Reading): ReadonlySet<string> => {
  const { ours } = reading;
  const walk = new Walk();
  const wrongBody = bodyIsWrong(call, route, facts, ours);
  const inBrowser = facts.origin !== "none";
  // Item 53: a deployment may take `Origin: null` for no origin.
  const mayBeNone = !ours && facts.origin === "null";
  const foreignIp = facts.ip === undefined ? undefined : facts.ip === "foreign";
  if (!ours) {
    if (wrongBody !== false) walk.may(MALFORMED);
    // A11: failures under 200 may replace every status. Extension routes may be missing.
    if (call.route === "chat.route") walk.may("200 error");
    if (route.extension === true) walk.may(O("not_found"), O("method_not_allowed"));
    // The credential's prefix shows its kind before any look-up.
    if (facts.credential === "publishable") walk.may(O("publishable_requires_session"));
  }
  front(walk, facts, reading);
  const publishable = facts.credential === "publishable";
  if (!ours && publishable && !inBrowser) walk.may(O("origin_required")); // A3
  walk.check(publishable, O("publishable_requires_session"));
  const server = facts.credential === "server";
  if (!ours && server && inBrowser && foreignIp !== false) walk.may(O("ip_not_allowed")); // item 148
  walk.check(server && inBrowser && (mayBeNone ? undefined : true), O("server_key_in_browser"));
  walk.check(server ? foreignIp : false, O("ip_not_allowed"));
  const session = facts.credential === "session";
  const mismatch = route.tile === true ? O("tile_access_restricted") : O("session_origin_mismatch");
  if (!ours && session && (!inBrowser || mayBeNone)) walk.may(O("origin_required")); // item 152
  if (!ours && session && isForeignOrigin(facts)) walk.may(O("session_origin_mismatch")); // A12
  walk.check(session && isForeignOrigin(facts) && (mayBeNone ? undefined : true), mismatch);
  if (!ours && route.tile === true) walk.may(O("tile_access_restricted")); // item 208: "usually"
  capability(walk, call, facts, ours);
  walk.may(O("org_overloaded"));
  walk.check(wrongBody, MALFORMED);
  if (!ours && refusesTheQuery(call)) walk.may(call.outcome);
  limiter(walk, facts, route.meter === "map_loads", ours);
  return walk.answers("200", "200 error", ...(ours ? [] : ["201", "204"]));
};

/** Statuses of servers between caller and API. */
const BETWEEN = /^(5(?!03$)\d\d|408|413|431)/;
const OF_MANAGEMENT = /^(400|401|403|404|405|409|410|422)\b/;

/** Whether it may be a refusal by a server in between, by key management (open, item 127) or of an ended session. */
export const isOthersRefusal = ({ route, outcome, facts }: CallLine): boolean =>
  BETWEEN.test(outcome) ||
  (route.startsWith("keys.") && OF_MANAGEMENT.test(outcome)) ||
  (isOver(facts) && /^401\b/.test(outcome));

/** Whether the call's session has ended; item 164 covers keys only. */
const isOver = (facts: CallFacts | undefined): boolean =>
  facts?.credential === "session" && (facts.state === "expired" || facts.state === "revoked");

/** A11: any refusal may come under 200 on this route. */
export const mayBeRefusalUnder200 = ({ route, outcome }: CallLine) => route === "chat.route" && outcome === "200 error";

/** B5. The facts do not say what the body asked for, so most answers are legal. */
const management = (route: Route, facts: CallFacts, reading: Reading): ReadonlySet<string> => {
  const unlessDeletion = (fails: boolean) => (fails && route.method !== "DELETE" ? true : undefined);
  const walk = new Walk();
  if (!reading.ours) walk.may(O("b2b_overloaded"), MALFORMED); // A22, A2
  walk.may(O("key_service_unavailable"));
  const isRefused = facts.state === undefined ? undefined : facts.state !== "valid";
  walk.check(facts.credential === "admin" ? isRefused : true, UNAUTHENTICATED);
  walk.may(O("forbidden"), O("not_found"), O("plan_required"));
  walk.check(unlessDeletion(facts.tier === null), O("plan_required"));
  walk.may(MALFORMED, O("unknown_scope"), O("unknown_product"), O("publishable_live_requires_origins"));
  walk.check(unlessDeletion(facts.body === "malformed"), MALFORMED);
  walk.may(O("free_plan_publishable_only"), O("vendor_scope_requires_acknowledgement"));
  walk.may(O("tier_capability_not_allowed"), O("key_limit_reached"));
  return walk.answers("200", "201", "204");
};

/** Every legal outcome; `null`: unknown. */
export const legalAnswers = (call: CallLine, reading: Reading): ReadonlySet<string> | null => {
  const { facts, route: name } = call;
  if (facts === undefined || name === "-") return null;
  const route = routeOf(name);
  if (route.surface === "exchange") return exchange(call, facts, reading);
  if (route.surface === "management") return management(route, facts, reading);
  return runtime(call, route, facts, reading);
};

/** Whether this call alone violates an invariant; folded histories keep such calls whole. */
export const looksWrong = (call: CallLine, ours: boolean): boolean => {
  if (!isDefinite(call) || (!ours && isOthersRefusal(call))) return false;
  if (isAdmitted(call) && (isUnanswered(call.outcome, call) || streamResult(call) === "cut")) return true;
  const legal = legalAnswers(call, { ours, stateUnsettled: false });
  return legal !== null && !legal.has(admissionOf(call.outcome));
};
