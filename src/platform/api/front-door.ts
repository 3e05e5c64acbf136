/**
 * Where a request comes in, before the framework sees it. A call on one of the contract's fixed paths is found at once and
 * begins here, so that one which is shed has paid for no routing and for none of the framework's objects. All other requests
 * are the router's: fields in the path or in the query, key management, an unknown path, another method.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { ROUTE_NAMES, type RouteName, routeOf } from "../../contract/routes.ts";
import { isMalformed, refuseMalformed } from "./listener.ts";
import { BASE_PATH, methodsOf } from "./unrouted.ts";

/** Begins a call; nothing is asked of the request but what its head says. */
export type Begin = (request: IncomingMessage, response: ServerResponse) => void;

type FixedPath = { path: string; byMethod: ReadonlyMap<string, Begin> };

/** By their length: to compare a path with the one or two that are as long costs less than its hash. */
type FixedPaths = readonly (readonly FixedPath[] | undefined)[];

/** `beginOf`: `null` for a route that is left to the router. */
const fixedPaths = (beginOf: (name: RouteName) => Begin | null): FixedPaths => {
  const byPath = new Map<string, Map<string, Begin>>();
  for (const name of ROUTE_NAMES) {
    const { path, method } = routeOf(name);
    const begin = beginOf(name);
    if (begin === null || path.includes("{")) continue;
    const byMethod = byPath.get(BASE_PATH + path) ?? new Map<string, Begin>();
    for (const answered of methodsOf(method)) byMethod.set(answered, begin);
    byPath.set(BASE_PATH + path, byMethod);
  }
  const byLength: FixedPath[][] = [];
  for (const [path, byMethod] of byPath) byLength[path.length] = [...(byLength[path.length] ?? []), { path, byMethod }];
  return byLength;
};

const beginFor = (paths: FixedPaths, url: string, method: string): Begin | undefined => {
  for (const { path, byMethod } of paths[url.length] ?? []) if (path === url) return byMethod.get(method);
  return undefined;
};

/** `broke`: answers where a beginning threw. To be called before others listen for requests. */
export const putDoorBefore = (
  listener: Pick<Server, "listeners" | "removeAllListeners" | "on">,
  beginOf: (name: RouteName) => Begin | null,
  broke: (error: unknown, response: ServerResponse) => void,
): void => {
  const paths = fixedPaths(beginOf);
  const routers = listener.listeners("request") as Begin[];
  const [route] = routers;
  if (route === undefined || routers.length !== 1) throw new Error(`expected one router, got ${routers.length}`);
  listener.removeAllListeners("request");
  const refused = new WeakSet<Socket>();
  listener.on("request", (request, response) => {
    if (refused.has(request.socket)) return;
    if (isMalformed(request)) {
      refused.add(request.socket);
      refuseMalformed(response);
      return;
    }
    const begin = beginFor(paths, request.url as string, request.method as string);
    if (begin === undefined) {
      route(request, response);
      return;
    }
    try {
      begin(request, response);
    } catch (error) {
      broke(error, response);
    }
  });
};
