/**
 * What is no call of a route, answered before the cap on calls in flight: an unknown path (404), a known one with another
 * method (405), a preflight (items 18, 160).
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type GapRefusalName, outcomeOf } from "../../contract/refusals.ts";
import { ROUTE_NAMES, routeOf } from "../../contract/routes.ts";
import { countOutcome } from "./call-record.ts";
import { requestIdOf } from "./caller.ts";
import type { ApiContext } from "./context.ts";
import { preflightHeaders } from "./cors.ts";

export const BASE_PATH = "/v1";

type PathMethods = { pattern: RegExp; methods: string };

/** `GET` answers `HEAD` too; every path answers a preflight. */
export const methodsOf = (method: string): string[] => (method === "GET" ? ["GET", "HEAD"] : [method]);

/** Path by path, what `Allow` says (item 18). */
const PATHS: readonly PathMethods[] = (() => {
  const byPath = new Map<string, string[]>();
  for (const name of ROUTE_NAMES) {
    const { path, method } = routeOf(name);
    byPath.set(path, [...(byPath.get(path) ?? []), ...methodsOf(method)]);
  }
  return [...byPath].map(([path, methods]) => ({
    pattern: new RegExp(`^${BASE_PATH}${path.replace(/\{\w+\}/g, "[^/]+")}$`),
    methods: [...methods, "OPTIONS"].join(", "),
  }));
})();

const allowedMethods = (url: string): string | null => {
  // A client may name the whole address (RFC 9112, 3.2.2).
  const path = url.replace(/^https?:\/\/[^/?]+/i, "").split("?", 1)[0] as string;
  return PATHS.find(({ pattern }) => pattern.test(path))?.methods ?? null;
};

/** Headers of every answer to what is no call of a route. */
const sharedHeaders = (context: ApiContext, givenId: string | null): [name: string, id: string, ...more: string[]] => [
  "X-Request-Id",
  givenId ?? context.freshId(),
  "Vary",
  "Origin",
];

export const refuseUnrouted = (
  context: ApiContext,
  request: IncomingMessage,
  response: ServerResponse,
  name: GapRefusalName,
  more: readonly string[] = [],
): void => {
  const { status, headers, body } = context.parts.writeRefusal({ refuse: name });
  const givenId = requestIdOf(request.headers);
  const shared = sharedHeaders(context, givenId);
  countOutcome(context, givenId, outcomeOf(name), "-");
  if (context.stopping) response.shouldKeepAlive = false;
  context.parts.writeAnswer(response, status, [...headers, ...more, ...shared], body);
};

/** Item 18: an unknown path, or a known one with another method. `OPTIONS` on a known path is a preflight (item 160). */
export const answerUnrouted = (context: ApiContext, request: IncomingMessage, response: ServerResponse): void => {
  const methods = allowedMethods(request.url ?? "/");
  if (methods === null) {
    refuseUnrouted(context, request, response, "not_found");
    return;
  }
  if (request.method !== "OPTIONS") {
    refuseUnrouted(context, request, response, "method_not_allowed", ["Allow", methods]);
    return;
  }
  const asked = request.headers["access-control-request-headers"];
  const headers = preflightHeaders(request.headers.origin, methods, asked === undefined ? undefined : String(asked));
  const givenId = requestIdOf(request.headers);
  const [name, requestId] = sharedHeaders(context, givenId);
  countOutcome(context, givenId, "204", "-");
  context.parts.writeAnswer(response, 204, [...headers, name, requestId], "");
};
