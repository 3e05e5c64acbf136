/**
 * Answers one call: CORS, disturbances that do not depend on the caller, then the route that answers. Also writes every
 * answer.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { credentialIn, isListed, keyBySecret, ownCredentialIn, readToken } from "./credentials.ts";
import { exchange } from "./exchange.ts";
import { afterReply, globalShed } from "./limits.ts";
import { manage } from "./management.ts";
import { load } from "./map-loads.ts";
import { NEEDS } from "./offer.ts";
import { HANGS_UP, type Reply, SERVER_ERROR } from "./replies.ts";
import { runtime } from "./runtime.ts";
import type { ApiState } from "./state.ts";
import { oddInputReply } from "./stumbles.ts";

const preflightReply = ({ is, has }: ApiState, req: IncomingMessage): Reply | null => {
  if (req.method === "OPTIONS" && has("preflights-need-a-key")) return { status: 401, body: {} };
  if (req.method !== "OPTIONS" || !(is("answers-preflights") || has("preflights-without-a-key"))) return null;
  const allowed = has("preflights-without-a-key") ? "Content-Type" : "Content-Type, X-Api-Key";
  return {
    status: 204,
    headers: {
      "Access-Control-Allow-Origin": String(req.headers.origin),
      "Access-Control-Allow-Headers": allowed,
    },
  };
};

const setCorsHeads = (api: ApiState, req: IncomingMessage, res: ServerResponse): void => {
  const { is, has } = api;
  const page = req.headers.origin;
  const credential = credentialIn(api, req) ?? "";
  if (has("echoes-the-credential")) res.setHeader("X-Debug-Key", credential);
  const caller = readToken(api, credential)?.key ?? keyBySecret(api, credential);
  const silent = has("cors-for-json-alone") && (req.url ?? "").endsWith("/stream");
  if (page !== undefined && caller?.kind === "pk" && isListed(api, caller, page) && !is("no-cors") && !silent) {
    res.setHeader("Access-Control-Allow-Origin", has("cors-for-another") ? `${page}.example` : page);
  }
};

/** The answer to any call of a service that fails at random, is away, or has lost its key service for a while. */
const UNAVAILABLE: Reply = { ...SERVER_ERROR, status: 503 };

const disturbance = (api: ApiState, path: string): Reply | null => {
  const { is, detail, flat } = api;
  if (Date.now() < api.withoutKeysUntilMs) return UNAVAILABLE;
  const busy = (is("busy") && api.calls++ % 7 === 3) || (is("strays") && api.calls++ % 40 === 17);
  if (busy) return flat("b2b_overloaded", {}, { "Retry-After": "0" });
  if (is("stumbles") && Math.random() < 0.02) return UNAVAILABLE;
  if (is("has-a-stumbling-limiter") && Math.random() < 0.02) return detail(429, "limiter_unavailable");
  if (!is("is-away-for-a-while")) return null;
  // A maintenance window begins in the middle of the run.
  if (path === "/design/themes" && api.awayUntilMs === 0) api.awayUntilMs = performance.now() + 3_500;
  return performance.now() < api.awayUntilMs ? UNAVAILABLE : null;
};

const typeOf = ({ is, has }: ApiState, reply: Reply): string => {
  if (reply.text !== undefined || has("refuses-as-text")) return "text/plain";
  return is("charset") ? "application/json; charset=utf-8" : "application/json";
};

const isFree = ({ req }: ServerResponse): boolean => req.headers["accept-encoding"] !== "identity";

const write = (api: ApiState, res: ServerResponse, reply: Reply): void => {
  if (reply === HANGS_UP) return void res.destroy();
  const text = reply.text ?? (reply.body === undefined ? "" : JSON.stringify(reply.body));
  const headers: Record<string, string> = {
    ...(text === "" ? {} : { "content-type": typeOf(api, reply) }),
    ...reply.headers,
  };
  const named = Object.entries(headers).map(([name, value]) => [
    api.is("upper-headers") ? name.toUpperCase() : name,
    value,
  ]);
  const { is, has } = api;
  const codes =
    text !== "" && (has("compresses-unasked") || is("compresses-unasked") || (is("compresses") && isFree(res)));
  if (codes) named.push(["content-encoding", "gzip"]);
  afterReply(api, reply.status);
  res.writeHead(reply.status, Object.fromEntries(named) as Record<string, string>);
  res.end(codes ? gzipSync(text) : text);
};

type Call = { req: IncomingMessage; res: ServerResponse; text: string; path: string; route: string };

const routeAnswer = async (api: ApiState, call: Call): Promise<Reply | null> => {
  const { is, has, detail, unauthenticated } = api;
  const { req, text, path, route } = call;
  if (route === "POST /sdk/sessions") return exchange(api, req, text);
  const tile = /^\/tiles\/\d+\/\d+\/\d+$/.test(path);
  if (route in NEEDS || tile) return runtime(api, { ...call, tile });
  if (route === "POST /maps/loads" && (is("offers-map-loads") || has("never-stops-loads")))
    return load(api, req, route);
  const managed = /^\/shared-api\/api-keys(?:\/([^/]+))?$/.exec(path);
  if (managed !== null && !is("keys-live-elsewhere")) return manage(api, req, managed[1], text);
  if (is("unknown-is-403") && path.startsWith("/shared-api")) return detail(403, "forbidden");
  return is("unknown-is-401") ? unauthenticated() : { status: 404, body: { detail: "Not Found" } };
};

/** The path as a router takes it that minds neither case nor slashes. A check that compares paths misses the others. */
const routedPath = (api: ApiState, req: IncomingMessage, sent: string): string => {
  const { is, has, keys } = api;
  const plain = sent.toLowerCase().replaceAll(/\/+/g, "/").replace(/\/$/, "");
  if (has("asks-no-key-on-odd-paths") && plain !== sent) {
    const some = [...keys.values()].find(
      ({ kind, state, scopes }) => kind === "sk" && state === "valid" && scopes.length > 2,
    );
    req.headers["x-api-key"] ??= some?.secret;
  }
  return is("reads-paths-leniently") || has("asks-no-key-on-odd-paths") ? plain : sent;
};

export const answer = async (api: ApiState, req: IncomingMessage, res: ServerResponse, text: string): Promise<void> => {
  api.requestIds.push(String(req.headers["x-request-id"]));
  if (api.has("mixes-up-callers")) {
    api.latest = ownCredentialIn(api, req);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const preflight = preflightReply(api, req);
  if (preflight !== null) return write(api, res, preflight);
  setCorsHeads(api, req, res);
  const path = routedPath(api, req, (req.url ?? "").replace(/^\/v1/, "").replace(/\?.*$/, ""));
  const route = `${req.method} ${path}`;
  const early = oddInputReply(api, req, route, text) ?? disturbance(api, path) ?? globalShed(api);
  const reply = early ?? (await routeAnswer(api, { req, res, text, path, route }));
  if (reply !== null) write(api, res, reply);
};
