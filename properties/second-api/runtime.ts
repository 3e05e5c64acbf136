/**
 * The runtime routes once the caller is known: slots, bodies, rates, then a stream, a route or a catalog. A defect of what a
 * good call is answered belongs here, unless it streams (`streams.ts`) or concerns a body (`bodies.ts`).
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { fieldRefusal, routeReply } from "./bodies.ts";
import { countedAs, inFlightOf, isRateLimited, organizationShed, rateReply, takeSlot } from "./limits.ts";
import type { Reply } from "./replies.ts";
import { admitRuntime } from "./runtime-checks.ts";
import { type ApiState, type Key, orgOf } from "./state.ts";
import { stream } from "./streams.ts";

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
  // Readings in which what is loaded under a session counts (A8, A9).
  if (tile && (is("mints-are-free") || is("stops-paid-at-allowance"))) orgOf(api, key).used += 1;
  if (has("catalog-as-text") && route === "GET /design/styles") return { status: 200, text: "svc-morning" };
  return { status: 200, body: { items: [{ id: "svc-morning", name: "Morning" }], ...extra } };
};

/** `null`: it streams. */
export const runtime = (
  api: ApiState,
  call: { req: IncomingMessage; res: ServerResponse; route: string; text: string; tile: boolean },
): Reply | null => {
  const { is, has, malformed } = api;
  const { req, res, route, text, tile } = call;
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
