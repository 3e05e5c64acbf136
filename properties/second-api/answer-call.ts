/**
 * One call from its arrival to its answer: what is looked at before the route, then the route that answers. How every answer
 * is written stands here too.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { preflightReply, setCorsHeads } from "./cors.ts";
import { ownCredentialIn } from "./credentials.ts";
import { disturbance } from "./disturbances.ts";
import { exchange } from "./exchange.ts";
import { afterReply, globalShed } from "./limits.ts";
import { manage } from "./management.ts";
import { load } from "./map-loads.ts";
import { NEEDS } from "./offer.ts";
import { HANGS_UP, type Reply } from "./replies.ts";
import { runtime } from "./runtime.ts";
import type { ApiState } from "./state.ts";
import { oddInputReply } from "./stumbles.ts";

const typeOf = ({ is, has }: ApiState, reply: Reply): string => {
  if (reply.text !== undefined || has("refuses-as-text")) return "text/plain";
  return is("charset") ? "application/json; charset=utf-8" : "application/json";
};

/** Whether any coding will do. */
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

/** `null`: it streams. */
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

export const answer = async (api: ApiState, req: IncomingMessage, res: ServerResponse, text: string): Promise<void> => {
  api.requestIds.push(String(req.headers["x-request-id"]));
  if (api.has("mixes-up-callers")) {
    api.latest = ownCredentialIn(api, req);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const preflight = preflightReply(api, req);
  if (preflight !== null) return write(api, res, preflight);
  setCorsHeads(api, req, res);
  const path = (req.url ?? "").replace(/^\/v1/, "").replace(/\?.*$/, "");
  const route = `${req.method} ${path}`;
  const early = oddInputReply(api, req, route, text) ?? disturbance(api, path) ?? globalShed(api);
  const reply = early ?? (await routeAnswer(api, { req, res, text, path, route }));
  if (reply !== null) write(api, res, reply);
};
