/** The orders of checks (requirements.md B1-B5): the first check that fails decides. */
import type { AnyRefusalName, BodyError } from "../contract/refusals.ts";
import type { Surface } from "../contract/routes.ts";
import { type Ask, type Call, type MeterTake, type Refuse, UNAVAILABLE } from "./call.ts";
import type { KeyUpdate } from "./management.ts";
import { mapLoadCap, overCapRefusal, productRefusal, scopeRefusal } from "./meters.ts";
import { addressListed, isBlock, normalizeOrigin, originListed } from "./origin.ts";

/** A check passes (`null`), refuses, or asks for a fact and is not run again. */
export type Check = (call: Call) => Ask | Refuse | null;

const refuse = (name: AnyRefusalName): Refuse => ({ refuse: name });

const refuseIf =
  (name: AnyRefusalName, holds: (call: Call) => boolean): Check =>
  (call) =>
    holds(call) ? { refuse: name } : null;

// ── B1: the common front ──────────────────────────────────────────────────────────────────────────────────────────────

const replicaHasRoom: Check = (call) => {
  if (!call.shedder.enter()) return refuse("b2b_overloaded");
  call.holdsSlot = true;
  return null;
};

const credentialIsGiven = refuseIf("unauthenticated", ({ kind }) => kind === "unknown");

const askSession: Check = (call) =>
  call.kind === "session" ? { ask: "session", token: call.caller.credential as string } : null;

const sessionIsGood = refuseIf("unauthenticated", ({ kind, session }) => kind === "session" && session === null);

const askKey: Check = (call) =>
  call.session
    ? { ask: "key-by-id", id: call.session.keyId }
    : { ask: "key", secret: call.caller.credential as string };

const keyServiceAnswered = refuseIf(
  "key_service_unavailable",
  ({ lookup, changed }) => lookup === UNAVAILABLE || changed === UNAVAILABLE,
);

const keyIsGood = refuseIf("unauthenticated", (call) => {
  if (call.lookup === null) return true;
  const { status, expires_at } = call.snapshot.key;
  return status !== "valid" || (expires_at !== null && expires_at <= call.nowMs);
});

// ── B2: session exchange ──────────────────────────────────────────────────────────────────────────────────────────────

const sessionsAreConfigured = refuseIf(
  "sessions_not_configured",
  (call) => call.deployment.sessions === "not_configured",
);
const sessionsAreEnabled = refuseIf("sessions_disabled", (call) => call.deployment.sessions === "disabled");
const keyIsPublishable = refuseIf("publishable_key_required", ({ kind }) => kind !== "publishable");
const originIsPresent = refuseIf("origin_required", ({ caller }) => caller.origin === null);
const originIsListed = refuseIf(
  "session_origin_mismatch",
  ({ snapshot, caller }) => !originListed(snapshot.key, caller.origin as string),
);

const productIsAdmitted: Check = (call) => {
  const name = productRefusal(call.snapshot, call.product as NonNullable<Call["product"]>);
  return name === null ? null : refuse(name);
};

// ── B3: runtime ───────────────────────────────────────────────────────────────────────────────────────────────────────

const keyIsNotPublishable = refuseIf("publishable_requires_session", ({ kind }) => kind === "publishable");

const serverKeyIsNotInBrowser = refuseIf(
  "server_key_in_browser",
  ({ kind, caller }) => kind === "server" && caller.origin !== null,
);

const addressIsListed = refuseIf(
  "ip_not_allowed",
  ({ kind, snapshot, caller }) => kind === "server" && !addressListed(snapshot.key, caller.address),
);

/** A session without an origin is admitted (item 152); tile routes have their own refusal (A12). */
const sessionOriginIsListed: Check = ({ kind, caller: { origin }, snapshot, route }) => {
  if (kind !== "session" || origin === null || originListed(snapshot.key, origin)) return null;
  return refuse(route.tile === true ? "tile_access_restricted" : "session_origin_mismatch");
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

const limiterAnswered = refuseIf("limiter_unavailable", ({ taken }) => taken === UNAVAILABLE);

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

// ── B5: key management, neither shed nor limited (A22), because keys must be revocable during overload ────────────────

const askAdmin: Check = (call) => ({ ask: "admin", token: call.caller.credential ?? "" });
const adminIsKnown = refuseIf("unauthenticated", ({ admin }) => admin === null);
const adminMayManage = refuseIf("forbidden", ({ admin }) => admin?.role !== "org_admin");

const FAULTS_MAX = 8;

const isOrigin = (text: string): boolean => normalizeOrigin(text) !== null;

/** Finds what a schema cannot: origins and addresses that can never match (items 52, 55). */
const listsCanMatch: Check = ({ body }) => {
  const change = body?.ok === true ? (body.value as KeyUpdate | null) : null;
  const { allowed_origins = [], allowed_ips = [] } = change ?? {};
  const faults = (field: string, all: readonly string[], fits: (one: string) => boolean, msg: string): BodyError[] =>
    all.flatMap((one, i) => (fits(one) ? [] : [{ loc: ["body", field, i], msg, type: "value" }]));
  const errors = [
    ...faults("allowed_origins", allowed_origins, isOrigin, "expected scheme://host[:port]"),
    ...faults("allowed_ips", allowed_ips, isBlock, "expected an address or a CIDR block"),
  ];
  return errors.length === 0 ? null : { refuse: "malformed_body", errors: errors.slice(0, FAULTS_MAX) };
};

/** The key service decides (`management.ts`) and stores the change, or refuses it. */
const askChange: Check = () => ({ ask: "change" });
const changeIsAllowed: Check = ({ changed }) => (typeof changed === "object" && "refuse" in changed ? changed : null);

const FRONT = { replicaHasRoom, credentialIsGiven, askSession, sessionIsGood, askKey, keyServiceAnswered, keyIsGood };
const LIMITER = { askLimiter, limiterAnswered, limiterAllows };

/** Named, so that mutants and tests can refer to a check. The order of the properties is the order of checks. */
export const EXCHANGE_ORDER: Readonly<Record<string, Check>> = {
  ...FRONT,
  ...{ sessionsAreConfigured, sessionsAreEnabled, keyIsPublishable, originIsPresent, originIsListed },
  ...{ askBody, bodyIsWellFormed, productIsAdmitted, organizationHasRoom },
  ...LIMITER,
};

export const RUNTIME_ORDER: Readonly<Record<string, Check>> = {
  ...FRONT,
  ...{ keyIsNotPublishable, serverKeyIsNotInBrowser, addressIsListed, sessionOriginIsListed, scopeIsAdmitted },
  ...{ organizationHasRoom, askBody, bodyIsWellFormed },
  ...LIMITER,
};

const MANAGEMENT_ORDER: Readonly<Record<string, Check>> = {
  ...{ askAdmin, adminIsKnown, adminMayManage, askBody, bodyIsWellFormed, listsCanMatch },
  ...{ askChange, keyServiceAnswered, changeIsAllowed },
};

export type Orders = Readonly<Record<Surface, readonly Check[]>>;

export const HEALTHY_ORDERS: Orders = {
  exchange: Object.values(EXCHANGE_ORDER),
  runtime: Object.values(RUNTIME_ORDER),
  management: Object.values(MANAGEMENT_ORDER),
};

/** Runs the checks from where the call stands. `null`: admitted; its slots are released by `call.leave`. */
export const advance = (call: Call, orders: Orders): Ask | Refuse | null => {
  const order = orders[call.route.surface];
  while (call.step < order.length) {
    const check = order[call.step] as Check;
    call.step += 1;
    const result = check(call);
    if (result !== null) return result;
  }
  return null;
};
