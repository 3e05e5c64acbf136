/**
 * The runtime routes: admission, with the checks in their order; slots, bodies and rates; then a stream, a route or a catalog.
 * Defects of streams are in `streams.ts`, of bodies in `bodies.ts`, all others here.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { fieldRefusal, routeReply } from "./bodies.ts";
import { credentialIn, isListed, isOnOtherReplica, isOurs, keyBySecret, sessionIn } from "./credentials.ts";
import { countedAs, inFlightOf, isRateLimited, organizationShed, rateReply, takeSlot } from "./limits.ts";
import { FREE_SCOPES, NEEDS, SCOPE_OF } from "./offer.ts";
import type { Reply } from "./replies.ts";
import { type ApiState, type Key, orgOf } from "./state.ts";
import { stream } from "./streams.ts";

type Session = { product: string } | null;

const unknownReply = ({ is, has, unauthenticated }: ApiState, isOver: boolean): Reply => {
  if (isOver && is("ended-session-detail")) return { status: 401, body: { detail: "session_expired" } };
  return has("503-for-unknown") ? { status: 503, body: {} } : unauthenticated();
};

/** Refuses a publishable key, which needs a session, and a server key in a browser. */
const keyRefusal = ({ is, has, detail }: ApiState, key: Key, origin: string | undefined): Reply | null => {
  if (key.kind === "pk") {
    if (is("origin-required-at-runtime") && origin === undefined) return detail(403, "origin_required");
    return detail(has("publishable-as-403") ? 403 : 401, "publishable_requires_session");
  }
  if (origin === undefined || has("server-key-in-any-browser")) return null;
  const cors: Record<string, string> = has("cors-for-server-keys") ? { "Access-Control-Allow-Origin": "*" } : {};
  return detail(403, "server_key_in_browser", cors);
};

/** Refuses a session from an Origin that is not listed. */
const elsewhereReply = ({ is, has, detail, flat }: ApiState, tile: boolean): Reply => {
  if (!tile || is("tile-as-403"))
    return detail(403, is("legacy-origin-name") ? "origin_not_allowed" : "session_origin_mismatch");
  const headers: Record<string, string> = has("tile-without-retry-after") ? {} : { "Retry-After": "3600" };
  const restricted = flat("tile_access_restricted", {}, headers);
  return has("restricts-tiles-with-403") ? { ...restricted, status: 403 } : restricted;
};

const capabilityRefusal = (
  api: ApiState,
  ...[key, session, route, tile, frozen]: [key: Key, session: Session, route: string, tile: boolean, frozen: boolean]
): Reply | null => {
  const { is, has, detail } = api;
  const needed = tile ? "maps" : (NEEDS[route] as string);
  const unscoped = has("forgets-a-scope") && route === "GET /design/samples";
  if (!key.scopes.includes(needed) && !unscoped) {
    return detail(403, has("tier-for-scope") ? "tier_capability_not_allowed" : "insufficient_scope");
  }
  const isServers = session === null && key.kind === "sk";
  if (isServers && has("loses-a-scope-on-one-route") && route === "GET /design/samples")
    return detail(403, "insufficient_scope");
  if (isServers && has("closes-a-scope-as-a-product") && needed === "design") return detail(403, "product_not_allowed");
  if (session !== null && !is("sessions-are-wide") && SCOPE_OF[session.product] !== needed) {
    return detail(403, is("product-for-session") ? "product_not_allowed" : "insufficient_scope");
  }
  const lax = is("server-keys-on-free") && key.kind === "sk";
  const free = orgOf(api, key).tier !== "Pro";
  return free && !lax && !frozen && (key.kind === "sk" || !FREE_SCOPES.includes(needed))
    ? detail(403, "tier_capability_not_allowed")
    : null;
};

export const admitRuntime = (api: ApiState, req: IncomingMessage, route: string, tile: boolean) => {
  const { is, has, detail, unauthenticated, keys, remembered } = api;
  const credential = credentialIn(api, req);
  const { origin } = req.headers;
  if (credential === null && has("open-catalogs") && route === "GET /design/themes")
    return { key: [...keys.values()][0] as Key };
  if (credential === null) return unauthenticated();
  if (is("prefix-first") && credential.startsWith("svc_pk_")) return detail(401, "publishable_requires_session");
  const session = sessionIn(api, credential);
  const key = session?.key ?? remembered.get(credential) ?? keyBySecret(api, credential);
  if (has("remembers-server-keys") && key?.kind === "sk" && key.state === "valid")
    remembered.set(credential, { ...key });
  if (key === undefined) return unknownReply(api, isOurs(api, credential));
  const frozen = session !== null && is("frozen-tokens");
  if (key.state !== "valid" && !frozen && !isOnOtherReplica(api, key) && !has(`serves-${key.state}`))
    return unauthenticated();
  if (session === null && key.kind === "pk" && has("serves-publishable-keys")) return { key };
  const misplaced = session === null ? keyRefusal(api, key, origin) : null;
  if (misplaced !== null) return misplaced;
  if (!key.ipOk && !has("any-address")) return detail(403, "ip_not_allowed");
  const needsOrigin = is("sessions-need-origin") || has("takes-null-for-enough");
  if (session !== null && origin === undefined && needsOrigin) return detail(403, "origin_required");
  if (session !== null && origin === "null" && (is("null-counts-as-none") || has("takes-null-for-enough")))
    return { key };
  if (session !== null && origin !== undefined && !isListed(api, key, origin) && !has("session-from-anywhere"))
    return elsewhereReply(api, tile);
  return capabilityRefusal(api, key, session, route, tile, frozen) ?? { key };
};

type Fields = Record<string, unknown>;

const readBody = ({ has, malformed }: ApiState, text: string): { fields: Fields } | { refusal: Reply } => {
  try {
    const fields = JSON.parse(text) as Fields | null;
    return typeof fields === "object" && fields !== null ? { fields } : { refusal: malformed() };
  } catch {
    const failed = has("500-on-broken-json");
    return { refusal: failed ? { status: 500, body: { detail: "Internal Server Error" } } : malformed() };
  }
};

const plainReply = (api: ApiState, key: Key, route: string, body: Fields, tile: boolean): Reply => {
  const { is, has, extra, malformed } = api;
  if (route === "POST /chat/control/route") return routeReply(body, api);
  if (route === "POST /design/analyze" && has("analyzes-later")) return { status: 202 };
  if (route === "POST /design/analyze" && has("demands-a-prompt") && !("prompt" in body)) return malformed();
  if (route === "POST /design/analyze" && !("dataset" in body) && !has("analyzes-nothing")) return malformed();
  // In these readings a tile under a session counts as a load (A8, A9).
  if (tile && (is("mints-are-free") || is("stops-paid-at-allowance"))) orgOf(api, key).used += 1;
  if (has("catalog-as-text") && route === "GET /design/styles") return { status: 200, text: "svc-morning" };
  return { status: 200, body: { items: [{ id: "svc-morning", name: "Morning" }], ...extra } };
};

/** `null`: the answer is a stream. */
export const runtime = (
  api: ApiState,
  call: { req: IncomingMessage; res: ServerResponse; route: string; text: string; tile: boolean },
): Reply | null => {
  const { is, has, malformed } = api;
  const { req, res, route, text, tile } = call;
  if (tile && is("tiles-are-public")) return { status: 200, body: {} };
  const admitted = admitRuntime(api, req, route, tile);
  if (!("key" in admitted)) {
    const swallow = is("route-swallows") && route === "POST /chat/control/route";
    return swallow ? { status: 200, body: { error: "refused" } } : admitted;
  }
  const { key } = admitted;
  const whose = countedAs(api, key);
  const shed = organizationShed(api, whose);
  if (shed !== null) return shed;
  const read = req.method === "POST" ? readBody(api, text) : { fields: {} };
  if ("refusal" in read) return read.refusal;
  const body = read.fields;
  if (route === "POST /chat/control/stream" && !Array.isArray(body.messages)) {
    if (!has("streams-malformed")) return malformed();
    stream(api, res, route, () => {});
    return null;
  }
  const refused = fieldRefusal(route, req.url ?? "", body, api);
  if (refused !== null) return refused;
  if (isRateLimited(api, key)) {
    if (has("keeps-the-slot-of-the-limited")) api.inFlight.set(whose, inFlightOf(api, whose) + 1);
    return rateReply(api);
  }
  if (!route.endsWith("/stream")) return plainReply(api, key, route, body, tile);
  stream(api, res, route, takeSlot(api, whose));
  return null;
};
