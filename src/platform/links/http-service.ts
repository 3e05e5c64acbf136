/**
 * What the limiter service, the key service and the control planes share: JSON over bare `node:http`, a table of routes,
 * and an end that lets running calls finish. Bare, because these services answer a handful of small calls and every
 * microsecond of theirs is one of the API's.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { RequestError, readBody, sendJson, sendLines } from "./http-message.ts";
import { type Network, TCP } from "./network.ts";

export { RequestError };

type ServiceRequest = { params: Record<string, string>; query: URLSearchParams; body: unknown };
/** `lines` streams NDJSON; otherwise `body` goes out as JSON. */
export type ServiceReply = { status: number; body?: unknown; lines?: Iterable<unknown> | AsyncIterable<unknown> };
export type ServiceRoute = {
  method: string;
  /** `/orgs/{id}`: a segment in braces is a parameter. */
  path: string;
  handle(request: ServiceRequest): ServiceReply | Promise<ServiceReply>;
};

export type HttpService = { url: string; close(): Promise<void> };

/** Longer than any client of ours keeps an idle connection, so that none is closed under a request. */
const KEEP_ALIVE_MS = 60_000;
const CLOSE_GRACE_MS = 2_000;
/** As the API's: a burst of connections waits rather than being turned away. */
const BACKLOG = 4096;

const decodeSegment = (segment: string): string => {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new RequestError(400, `expected a percent-encoded path, got ${segment}`);
  }
};

const matchPath = (pattern: readonly string[], path: readonly string[]): Record<string, string> | null => {
  if (pattern.length !== path.length) return null;
  const params: Record<string, string> = {};
  for (let i = 0; i < pattern.length; i += 1) {
    const part = pattern[i] as string;
    if (part.startsWith("{")) params[part.slice(1, -1)] = decodeSegment(path[i] as string);
    else if (part !== path[i]) return null;
  }
  return params;
};

/** `port: 0` lets the system choose. Rejects when the address cannot be listened on. */
export const startHttpService = async (options: {
  host: string;
  port: number;
  routes: readonly ServiceRoute[];
  /** Looks at the head of every request before anything else, and throws a `RequestError` for one that may not ask. */
  admit?: (request: IncomingMessage, response: ServerResponse) => void;
  network?: Network | undefined;
}): Promise<HttpService> => {
  let closing = false;
  // For whoever wants to know whether the link is whole; it costs nothing and changes nothing.
  const health: ServiceRoute = {
    method: "GET",
    path: "/health",
    handle: () => ({ status: 200, body: { healthy: true } }),
  };
  const exact = new Map(
    [health, ...options.routes]
      .filter(({ path }) => !path.includes("{"))
      .map((route) => [`${route.method} ${route.path}`, route]),
  );
  const patterned = options.routes
    .filter(({ path }) => path.includes("{"))
    .map((route) => ({ route, pattern: route.path.split("/") }));
  const none = new URLSearchParams();

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    // No browser has business here, and a page can make one call every port of its machine.
    if (request.headers.origin !== undefined)
      throw new RequestError(403, "expected no Origin: this is no page's service");
    options.admit?.(request, response);
    const url = request.url ?? "/";
    const mark = url.indexOf("?");
    const path = mark === -1 ? url : url.slice(0, mark);
    let route = exact.get(`${request.method} ${path}`);
    let params: Record<string, string> = {};
    if (route === undefined) {
      const parts = path.split("/");
      for (const candidate of patterned) {
        const matched = candidate.route.method === request.method ? matchPath(candidate.pattern, parts) : null;
        if (matched === null) continue;
        route = candidate.route;
        params = matched;
        break;
      }
    }
    if (route === undefined) throw new RequestError(404, `there is no ${request.method} ${path} here`);
    const body = request.method === "GET" ? undefined : await readBody(request);
    const reply = await route.handle({
      params,
      query: mark === -1 ? none : new URLSearchParams(url.slice(mark + 1)),
      body,
    });
    if (reply.lines !== undefined) await sendLines(response, reply.status, reply.lines);
    else sendJson(response, reply.status, reply.body, closing);
  };

  const server = createServer({ noDelay: true, keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    answer(request, response).catch((error: unknown) => {
      if (response.headersSent) return response.destroy();
      const known = error instanceof RequestError;
      sendJson(
        response,
        known ? error.status : 500,
        { error: error instanceof Error ? error.message : "failed" },
        true,
      );
    });
  });
  const { network = TCP, host } = options;
  const { address, family, port } = await network.listen(server, { host, port: options.port, backlog: BACKLOG });
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${port}`,
    close: () =>
      new Promise<void>((resolve) => {
        closing = true;
        const force = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
        server.close(() => {
          clearTimeout(force);
          resolve();
        });
      }),
  };
};
