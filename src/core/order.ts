/** The orders of checks for keys and sessions (requirements.md B1-B4): the first check that fails decides. */
import type { AnyRefusalName } from "../contract/refusals.ts";
import { productRefusal, scopeRefusal } from "./admission.ts";
import { type Ask, type Call, type MeterTake, type Refuse, UNAVAILABLE } from "./call.ts";
import { mapLoadCap, overCapRefusal } from "./meters.ts";
import { addressListed, originListed } from "./origin.ts";

/** A check passes (`null`), refuses, or asks for a fact and is not run again. */
export type Check = (call: Call) => Ask | Refuse | null;

const refuse = (name: AnyRefusalName): Refuse => ({ refuse: name });

// ── B1: the common front ──────────────────────────────────────────────────────────────────────────────────────────────

const replicaHasRoom: Check = (call) => {
  if (!call.shedder.enter()) return refuse("b2b_overloaded");
  call.holdsSlot = true;
  return null;
};

const credentialIsGiven: Check = (call) => (call.kind === "unknown" ? refuse("unauthenticated") : null);

const askSession: Check = (call) =>
  call.kind === "session" ? { ask: "session", token: call.caller.credential as string } : null;

const sessionIsGood: Check = (call) =>
  call.kind === "session" && call.session === null ? refuse("unauthenticated") : null;

const askKey: Check = (call) =>
  call.session
    ? { ask: "key-by-id", id: call.session.keyId }
    : { ask: "key", secret: call.caller.credential as string };

const keyServiceAnswered: Check = (call) => (call.lookup === UNAVAILABLE ? refuse("key_service_unavailable") : null);

const keyIsGood: Check = (call) => {
  if (call.lookup === null) return refuse("unauthenticated");
  const { key } = call.snapshot;
  const expired = key.expires_at !== null && key.expires_at <= call.nowMs;
  return key.status !== "valid" || expired ? refuse("unauthenticated") : null;
};

// ── B2: session exchange ──────────────────────────────────────────────────────────────────────────────────────────────

const sessionsAreConfigured: Check = (call) =>
  call.deployment.sessions === "not_configured" ? refuse("sessions_not_configured") : null;

const sessionsAreEnabled: Check = (call) =>
  call.deployment.sessions === "disabled" ? refuse("sessions_disabled") : null;

const keyIsPublishable: Check = (call) => (call.kind !== "publishable" ? refuse("publishable_key_required") : null);

const originIsPresent: Check = (call) => (call.caller.origin === null ? refuse("origin_required") : null);

const originIsListed: Check = (call) =>
  originListed(call.snapshot.key, call.caller.origin as string) ? null : refuse("session_origin_mismatch");

const productIsAdmitted: Check = (call) => {
  const name = productRefusal(call.snapshot, call.product as NonNullable<Call["product"]>);
  return name === null ? null : refuse(name);
};

// ── B3: runtime ───────────────────────────────────────────────────────────────────────────────────────────────────────

const keyIsNotPublishable: Check = (call) =>
  call.kind === "publishable" ? refuse("publishable_requires_session") : null;

const serverKeyIsNotInBrowser: Check = (call) =>
  call.kind === "server" && call.caller.origin !== null ? refuse("server_key_in_browser") : null;

const addressIsListed: Check = (call) =>
  call.kind === "server" && !addressListed(call.snapshot.key, call.caller.address) ? refuse("ip_not_allowed") : null;

/** A session without an origin is admitted (item 152); tile routes have their own refusal (A12). */
const sessionOriginIsListed: Check = (call) => {
  if (call.kind !== "session" || call.caller.origin === null || originListed(call.snapshot.key, call.caller.origin))
    return null;
  return refuse(call.route.tile === true ? "tile_access_restricted" : "session_origin_mismatch");
};

const scopeIsAdmitted: Check = (call) => {
  const name = scopeRefusal(call.snapshot, call.route.scope, call.product);
  return name === null ? null : refuse(name);
};

// ── shared ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const askBody: Check = () => ({ ask: "body" });

const bodyIsWellFormed: Check = (call) =>
  call.body?.ok === false ? { refuse: "malformed_body", errors: call.body.errors } : null;

const organizationHasRoom: Check = (call) => {
  const { org } = call.snapshot;
  if (!call.shedder.enterOrganization(org.id, org.in_flight_cap)) return refuse("org_overloaded");
  call.holdsOrganizationSlot = true;
  return null;
};

/** What an admitted call is charged: a tile mint is a map load (A9), other mints are free (item 80). */
const meterOf = (call: Call): MeterTake | null => {
  const name = call.route.surface === "exchange" ? (call.product === "tile" ? "map_loads" : null) : call.route.meter;
  if (name === null || name === undefined) return null;
  const cap = name === "map_loads" ? mapLoadCap(call.snapshot.org) : call.deployment.designCap;
  return { name, amount: 1, cap };
};

/** One atomic question: rate, then meter. The first that fails decides, and nothing is taken. */
const askLimiter: Check = (call) => ({ ask: "take", rate: call.deployment.rate, meter: meterOf(call) });

const limiterAnswered: Check = (call) => (call.taken === UNAVAILABLE ? refuse("limiter_unavailable") : null);

const limiterAllows: Check = (call) => {
  const taken = call.taken as Exclude<Call["taken"], typeof UNAVAILABLE | undefined>;
  if (taken.verdict === "taken") return null;
  if (taken.verdict === "rate_limited") {
    return { refuse: "rate_limited", retryAfterS: Math.max(1, Math.ceil(taken.wait_ms / 1000)) };
  }
  if (meterOf(call)?.name !== "map_loads") return refuse("rate_limited");
  const { org } = call.snapshot;
  const name = overCapRefusal(org);
  if (name === "map_load_hard_stop") return refuse(name);
  return { refuse: name, quota: { meter: "map_loads", limit: org.map_load_allowance, used: taken.used } };
};

const FRONT = { replicaHasRoom, credentialIsGiven, askSession, sessionIsGood, askKey, keyServiceAnswered, keyIsGood };

/** Named, so that mutants and tests can refer to a check. The order of the properties is the order of checks. */
export const EXCHANGE_ORDER: Readonly<Record<string, Check>> = {
  ...FRONT,
  sessionsAreConfigured,
  sessionsAreEnabled,
  keyIsPublishable,
  originIsPresent,
  originIsListed,
  askBody,
  bodyIsWellFormed,
  productIsAdmitted,
  organizationHasRoom,
  askLimiter,
  limiterAnswered,
  limiterAllows,
};

export const RUNTIME_ORDER: Readonly<Record<string, Check>> = {
  ...FRONT,
  keyIsNotPublishable,
  serverKeyIsNotInBrowser,
  addressIsListed,
  sessionOriginIsListed,
  scopeIsAdmitted,
  organizationHasRoom,
  askBody,
  bodyIsWellFormed,
  askLimiter,
  limiterAnswered,
  limiterAllows,
};

export type Orders = { exchange: readonly Check[]; runtime: readonly Check[] };

export const HEALTHY_ORDERS: Orders = {
  exchange: Object.values(EXCHANGE_ORDER),
  runtime: Object.values(RUNTIME_ORDER),
};

/** Runs the checks from where the call stands. `null`: admitted; its slots are released by `call.leave`. */
export const advance = (call: Call, orders: Orders): Ask | Refuse | null => {
  const order = call.route.surface === "exchange" ? orders.exchange : orders.runtime;
  while (call.step < order.length) {
    const check = order[call.step] as Check;
    call.step += 1;
    const result = check(call);
    if (result !== null) return result;
  }
  return null;
};
