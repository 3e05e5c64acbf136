/** What the services and the control planes share: JSON over Fastify, and a close that lets running calls finish. */
import { hash, timingSafeEqual } from "node:crypto";
import type { Server as HttpServer, IncomingMessage, ServerResponse } from "node:http";
import { type AddressInfo, connect, type Server, type Socket } from "node:net";
import { hostname } from "node:os";
import { Readable } from "node:stream";
import { type FastifyError, type FastifyReply, fastify } from "fastify";
import type { Static, TSchema } from "typebox";
import { Compile } from "typebox/schema";
import type { buildConnector } from "undici";
import { whyForeign } from "../../contract/private-door.ts";

// Where the deployment's connections come from: TCP, or a virtual network in this process.

type ListensAt = Pick<AddressInfo, "address" | "family" | "port">;

/** What listens on every address of the machine is reached at loopback; 0.0.0.0 and :: are no address of a host. */
const LOOPBACK_OF: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** Where a client on this machine reaches a listener. */
export const urlOf = (scheme: "http" | "https", { address, family, port }: ListensAt): string => {
  const host = LOOPBACK_OF[address] ?? address;
  return `${scheme}://${family === "IPv6" ? `[${host}]` : host}:${port}`;
};

export type Address = { host: string; port: number };

export type Network = {
  /** Starts a connection, which emits `connect` or `error`. */
  connect(at: Address): Socket;
  listen(server: HttpServer, at: Address): Promise<ListensAt>;
};

/** Counts the connections that were made through it and are not closed. */
export const countedNetwork = (network: Network): Network & { open(): number } => {
  let open = 0;
  return {
    ...network,
    open: () => open,
    connect: (at) => {
      open += 1;
      return network.connect(at).once("close", () => {
        open -= 1;
      });
    },
  };
};

/** Where the URL of a part leads; without a port it is HTTP's. */
export const hostAndPortOf = ({ hostname, port }: Record<"hostname" | "port", string>): Address => ({
  host: hostname.replace(/^\[|\]$/g, ""),
  port: Number(port || 80),
});

export const connectorOf =
  ({ connect }: Network, timeoutMs?: number): buildConnector.connector =>
  (to, callback) => {
    const socket = connect(hostAndPortOf(to));
    const settle = (error: Error | null): void => {
      clearTimeout(timer);
      socket.off("error", settle).off("connect", connected);
      if (error === null) callback(null, socket);
      else callback(error, null);
    };
    const connected = (): void => settle(null);
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => socket.destroy(new Error(`no connection within ${timeoutMs} ms`)), timeoutMs);
    socket.once("error", settle).once("connect", connected);
  };

/** Connections that wait to be accepted, so that a burst of new clients is not refused by the kernel. */
const BACKLOG = 4096;

export const TCP = {
  connect: ({ host, port }) => connect({ host, port, noDelay: true }),
  listen: async (server: Server, at) => {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject).listen({ ...at, backlog: BACKLOG }, () => {
        server.off("error", reject);
        resolve();
      });
    });
    return server.address() as AddressInfo;
  },
} satisfies Network;

/** Thrown by a handler: the caller's mistake, reported in a sentence. */
export class RequestError extends Error {
  override name = "RequestError";
  readonly statusCode: number;
  constructor(statusCode: number, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}

type ServiceRequest<Body = unknown> = { id: string; query: URLSearchParams; body: Body };
export type ServiceRoute = {
  method: string;
  /** The path that the route answers; it may have parameters, as in `/orgs/:id`. */
  path: string;
  /** Returns what is sent: a stream as NDJSON, anything else as JSON. Throws `RequestError`. */
  answer: (request: ServiceRequest) => unknown;
  /** 200 unless stated. */
  status?: number;
};

export const route = (method: string, path: string, answer: ServiceRoute["answer"]): ServiceRoute => ({
  ...{ method, path, answer },
});

/** A route whose body must fit the schema; otherwise a sentence names the first mismatch. */
export const routeWith = <S extends TSchema>(
  body: S,
  method: string,
  path: string,
  answer: (body: Static<S>, id: string) => unknown,
): ServiceRoute => {
  const schema = Compile(body);
  return route(method, path, ({ id, body }) => {
    if (schema.Check(body)) return answer(body as Static<S>, id);
    const wrong = schema.Errors(body ?? null)[1][0];
    throw new RequestError(422, `${wrong?.instancePath || "the body"} ${wrong?.message ?? "does not fit"}`);
  });
};

export type HttpService = { url: string; close(): Promise<void> };

/** Longer than any client of ours keeps an idle connection, so that none is closed under a request. */
const KEEP_ALIVE_MS = 60_000;
const CLOSE_GRACE_MS = 2_000;
const MAX_BODY_BYTES = 8 * 1024 * 1024;
const MAX_SEGMENT_CHARS = 8_192;
const LINES_AT_ONCE = 65_536;

const HEALTH = route("GET", "/health", () => ({ healthy: true }));

const parsed = (text: string): unknown => {
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    throw new RequestError(400, "expected a JSON body");
  }
};

/** A stream of lines as NDJSON, many lines in one chunk. */
export const ndjson = (lines: Iterable<unknown> | AsyncIterable<unknown>): Readable =>
  Readable.from(
    (async function* () {
      let text = "";
      for await (const line of lines) {
        text += `${JSON.stringify(line)}\n`;
        if (text.length < LINES_AT_ONCE) continue;
        yield text;
        text = "";
      }
      if (text !== "") yield text;
    })(),
  );

/** `port: 0` lets the system choose. */
export type ListenAt = { host?: string; port: number; network?: Network | undefined };

type ServiceOptions = ListenAt & {
  routes: readonly ServiceRoute[];
  /** Checks the head of every request before anything else, and throws a `RequestError` to refuse it. */
  admit?: (request: IncomingMessage, response: ServerResponse) => void;
  /** A longer body is answered 413 (default 8 MiB). */
  maxBodyBytes?: number;
};

/** Digests have one length, so a comparison in constant time tells nothing about the token. */
const digest = (text: string): Buffer => hash("sha256", text, "buffer");

/** Admits programs that have the token, and no browser. `host`: the listener's; `names`: more names that it has. */
export const admitToken = (token: string, host: string, names: readonly string[] = []): ServiceOptions["admit"] => {
  const door = { bound: host, names: [hostname().toLowerCase(), ...names] };
  const wanted = digest(token);
  return (request, response) => {
    const foreign = whyForeign(request, door);
    if (foreign !== null) throw new RequestError(foreign.status, foreign.error);
    const sent = /^bearer +(.*)$/i.exec(request.headers.authorization ?? "")?.[1] ?? "";
    if (timingSafeEqual(digest(sent), wanted)) return;
    response.setHeader("www-authenticate", "Bearer");
    throw new RequestError(401, "expected Authorization: Bearer with this service's token");
  };
};

export const startHttpService = async (options: ServiceOptions): Promise<HttpService> => {
  const { network = TCP, host = "127.0.0.1", port, maxBodyBytes = MAX_BODY_BYTES } = options;
  let isClosing = false;
  const server = fastify({
    bodyLimit: maxBodyBytes,
    exposeHeadRoutes: false,
    return503OnClosing: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    routerOptions: { maxParamLength: MAX_SEGMENT_CHARS },
    http: { noDelay: true },
    frameworkErrors: ({ message }, _request, reply) => void (reply as FastifyReply).code(400).send({ error: message }),
  });
  server.addHook("onRequest", async (request, reply) => {
    // Refuses browsers, because a web page can make a browser call every port of its machine.
    if (request.headers.origin !== undefined) {
      throw new RequestError(403, "expected no Origin: this is no page's service");
    }
    options.admit?.(request.raw, reply.raw);
  });
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", { parseAs: "string" }, async (_request: unknown, text: string) => parsed(text));
  for (const { method, path, answer, status = 200 } of [HEALTH, ...options.routes]) {
    server.route({
      method,
      url: path,
      handler: async ({ params, url, body }, reply) => {
        const query = new URLSearchParams(url.split("?", 2)[1] ?? "");
        const said = await answer({ id: (params as { id: string }).id, query, body });
        reply.code(status);
        if (isClosing) reply.header("connection", "close");
        if (said instanceof Readable) return reply.type("application/x-ndjson").send(said);
        return reply.type("application/json").send(JSON.stringify(said) ?? "");
      },
    });
  }
  server.setNotFoundHandler(({ method, url }) => {
    throw new RequestError(404, `there is no ${method} ${url.split("?", 1)[0]} here`);
  });
  server.setErrorHandler(({ statusCode = 500, message }: FastifyError | RequestError, _request, reply) => {
    void reply.code(statusCode).header("connection", "close").send({ error: message });
  });
  await server.ready();
  return {
    url: urlOf("http", await network.listen(server.server, { host, port })),
    close: async () => {
      isClosing = true;
      const force = setTimeout(() => server.server.closeAllConnections(), CLOSE_GRACE_MS);
      await server.close();
      clearTimeout(force);
    },
  };
};

export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
