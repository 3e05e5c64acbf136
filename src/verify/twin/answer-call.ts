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
import { oddInputReply } from "./stumbles.ts";
import type { World } from "./world.ts";

const typeOf = ({ is, has }: World, reply: Reply): string => {
  if (reply.text !== undefined || has("refuses-as-text")) return "text/plain";
  return is("charset") ? "application/json; charset=utf-8" : "application/json";
};

/** Whether any coding will do. */
const isFree = ({ req }: ServerResponse): boolean => req.headers["accept-encoding"] !== "identity";

const write = (world: World, res: ServerResponse, reply: Reply): void => {
  if (reply === HANGS_UP) return void res.destroy();
  const text = reply.text ?? (reply.body === undefined ? "" : JSON.stringify(reply.body));
  const headers: Record<string, string> = {
    ...(text === "" ? {} : { "content-type": typeOf(world, reply) }),
    ...reply.headers,
  };
  const named = Object.entries(headers).map(([name, value]) => [
    world.is("upper-headers") ? name.toUpperCase() : name,
    value,
  ]);
  const { is, has } = world;
  const codes =
    text !== "" && (has("compresses-unasked") || is("compresses-unasked") || (is("compresses") && isFree(res)));
  if (codes) named.push(["content-encoding", "gzip"]);
  afterReply(world, reply.status);
  res.writeHead(reply.status, Object.fromEntries(named) as Record<string, string>);
  res.end(codes ? gzipSync(text) : text);
};

type Call = { req: IncomingMessage; res: ServerResponse; text: string; path: string; route: string };

/** `null`: it streams. */
const routeAnswer = async (world: World, call: Call): Promise<Reply | null> => {
  const { is, has, detail, unauthenticated } = world;
  const { req, text, path, route } = call;
  if (route === "POST /sdk/sessions") return exchange(world, req, text);
  const tile = /^\/tiles\/\d+\/\d+\/\d+$/.test(path);
  if (route in NEEDS || tile) return runtime(world, { ...call, tile });
  if (route === "POST /maps/loads" && (is("offers-map-loads") || has("never-stops-loads")))
    return load(world, req, route);
  const managed = /^\/shared-api\/api-keys(?:\/([^/]+))?$/.exec(path);
  if (managed !== null && !is("keys-live-elsewhere")) return manage(world, req, managed[1], text);
  if (is("unknown-is-403") && path.startsWith("/shared-api")) return detail(403, "forbidden");
  return is("unknown-is-401") ? unauthenticated() : { status: 404, body: { detail: "Not Found" } };
};

export const answer = async (world: World, req: IncomingMessage, res: ServerResponse, text: string): Promise<void> => {
  world.requestIds.push(String(req.headers["x-request-id"]));
  if (world.has("mixes-up-callers")) {
    world.latest = ownCredentialIn(world, req);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const preflight = preflightReply(world, req);
  if (preflight !== null) return write(world, res, preflight);
  setCorsHeads(world, req, res);
  const path = (req.url ?? "").replace(/^\/v1/, "").replace(/\?.*$/, "");
  const route = `${req.method} ${path}`;
  const early = oddInputReply(world, req, route, text) ?? disturbance(world, path) ?? globalShed(world);
  const reply = early ?? (await routeAnswer(world, { req, res, text, path, route }));
  if (reply !== null) write(world, res, reply);
};
