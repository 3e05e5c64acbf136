/**
 * A TCP proxy that stands in for toxiproxy where neither Go nor a built toxiproxy is there: the part of toxiproxy's API that Floodgate
 * uses, and the toxics of its faults (latency, timeout, reset_peer, limit_data, slicer). It runs as a process of its own,
 * `node stand-in-proxy.ts -host HOST -port PORT -config FILE`, so deployment, injector and healing are the same with either.
 */
import { readFileSync } from "node:fs";
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { whyForeign } from "../contract/private-door.ts";

export const STAND_IN_VERSION = "stand-in";

type Toxic = {
  name: string;
  type: string;
  stream: "upstream" | "downstream";
  toxicity: number;
  attributes: Record<string, number>;
};

/** What a toxic does to a piece of data: what passes on, in order; `null` ends the connection there. */
type Meeting = { pass(data: Buffer): void; close(): void; reset(): void };
const WORKS: Readonly<
  Record<string, (data: Buffer, attributes: Toxic["attributes"], seen: { bytes: number }, meeting: Meeting) => unknown>
> = {
  latency: async (data, { latency = 0 }, _seen, { pass }) => {
    await pause(latency);
    pass(data);
  },
  timeout: async (_data, { timeout = 0 }, _seen, { close }) => {
    if (timeout === 0) return;
    await pause(timeout);
    close();
  },
  reset_peer: async (_data, { timeout = 0 }, _seen, { reset }) => {
    await pause(timeout);
    reset();
  },
  limit_data: (data, { bytes = 0 }, seen, { pass, close }) => {
    const left = Math.max(0, bytes - seen.bytes);
    seen.bytes += data.length;
    if (left > 0) pass(data.subarray(0, left));
    if (data.length >= left) close();
  },
  slicer: async (data, { average_size: size = 1, delay = 0 }, _seen, { pass }) => {
    for (let at = 0; at < data.length; at += size) {
      if (at > 0) await pause(delay / 1000);
      pass(data.subarray(at, at + size));
    }
  },
};

const MISSING = { status: 404, body: { error: "proxy not found" } };

class StandInLink {
  enabled = false;
  toxics: Toxic[] = [];
  readonly name: string;
  readonly upstream: string;
  #listen: string;
  #server: Server | null = null;
  readonly #open = new Set<Socket>();

  constructor({ name, listen, upstream }: { name: string; listen: string; upstream: string }) {
    this.name = name;
    this.upstream = upstream;
    this.#listen = listen;
  }

  state(): object {
    const { name, upstream, enabled, toxics } = this;
    return { name, listen: this.#listen, upstream, enabled, toxics };
  }

  async enable(): Promise<void> {
    if (this.enabled) return;
    const [host, port] = this.#listen.split(":");
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#accept(client));
    await new Promise<void>((resolve, reject) => server.once("error", reject).listen(Number(port), host, resolve));
    const { address, port: bound } = server.address() as AddressInfo;
    this.#listen = `${address}:${bound}`;
    this.#server = server;
    this.enabled = true;
  }

  async disable(): Promise<void> {
    this.enabled = false;
    const closed = new Promise<void>((resolve) =>
      this.#server === null ? resolve() : this.#server.close(() => resolve()),
    );
    this.cut();
    await closed;
    this.#server = null;
  }

  cut(): void {
    for (const socket of this.#open) socket.destroy();
  }

  #accept(client: Socket): void {
    const [host, port] = this.upstream.split(":");
    const service = connect({ host: host as string, port: Number(port), allowHalfOpen: true, noDelay: true });
    const end = (): void => {
      client.destroy();
      service.destroy();
    };
    const reset = (): void => {
      client.resetAndDestroy();
      service.destroy();
    };
    for (const socket of [client, service]) {
      this.#open.add(socket);
      socket.on("error", end).on("close", () => {
        this.#open.delete(socket);
        end();
      });
    }
    this.#pump(client, service, "upstream", end, reset);
    this.#pump(service, client, "downstream", end, reset);
  }

  /** Data goes through the toxics of its direction one piece after the other, so that a slow one holds up what follows. */
  #pump(from: Socket, to: Socket, stream: Toxic["stream"], close: () => void, reset: () => void): void {
    const seen = new WeakMap<Toxic, { bytes: number }>();
    const through = async (data: Buffer, at: number, toxics: readonly Toxic[]): Promise<void> => {
      const toxic = toxics[at];
      if (toxic === undefined) {
        if (!to.destroyed && !to.write(data))
          await new Promise((resolve) => to.once("drain", resolve).once("close", resolve));
        return;
      }
      const counted = seen.get(toxic) ?? { bytes: 0 };
      seen.set(toxic, counted);
      const passed: Promise<void>[] = [];
      const pass = (piece: Buffer): void => void passed.push(through(piece, at + 1, toxics));
      await WORKS[toxic.type]?.(data, toxic.attributes, counted, {
        pass,
        close: () => void Promise.all(passed).then(close),
        reset,
      });
      await Promise.all(passed);
    };
    let queue = Promise.resolve();
    from.on("data", (data: Buffer) => {
      from.pause();
      queue = queue
        .then(() =>
          through(
            data,
            0,
            this.toxics.filter((toxic) => toxic.stream === stream),
          ),
        )
        .then(() => void from.resume());
    });
    from.on("end", () => void queue.then(() => to.end()));
  }
}

/** An answer of the API: 204 has no body. */
type Answer = { status: number; body?: unknown };

const createApi = (proxies: Map<string, StandInLink>) => {
  const add = async (asked: {
    name: string;
    listen: string;
    upstream: string;
    enabled?: boolean;
  }): Promise<StandInLink> => {
    const proxy = new StandInLink(asked);
    if (asked.enabled !== false) await proxy.enable();
    proxies.set(asked.name, proxy);
    return proxy;
  };
  const onToxic = (proxy: StandInLink, method: string, name: string | undefined, body: Partial<Toxic>): Answer => {
    if (name === undefined) {
      if (method === "GET") return { status: 200, body: proxy.toxics };
      const toxic = { toxicity: 1, stream: "downstream", attributes: {}, ...body } as Toxic;
      if (!Object.hasOwn(WORKS, toxic.type))
        return { status: 400, body: { error: `the stand-in has no toxic "${toxic.type}"` } };
      if (proxy.toxics.some((one) => one.name === toxic.name))
        return { status: 409, body: { error: "toxic already exists" } };
      proxy.toxics.push(toxic);
      return { status: 200, body: toxic };
    }
    const toxic = proxy.toxics.find((one) => one.name === name);
    if (toxic === undefined) return { status: 404, body: { error: "toxic not found" } };
    if (method === "GET") return { status: 200, body: toxic };
    if (method === "DELETE") {
      proxy.toxics = proxy.toxics.filter((one) => one !== toxic);
      // As toxiproxy does: what it has swallowed will never be answered.
      if (toxic.type === "timeout") proxy.cut();
      return { status: 204 };
    }
    Object.assign(toxic.attributes, body.attributes);
    return { status: 200, body: toxic };
  };
  const onProxy = async (proxy: StandInLink, method: string, body: { enabled?: boolean }): Promise<Answer> => {
    if (method === "DELETE") {
      await proxy.disable();
      proxies.delete(proxy.name);
      return { status: 204 };
    }
    if (method !== "GET" && body.enabled !== undefined) await (body.enabled ? proxy.enable() : proxy.disable());
    return { status: 200, body: proxy.state() };
  };
  return {
    add,
    call: async (method: string, path: string, body: object): Promise<Answer> => {
      const [first, name, toxics, toxic] = path.split("/").slice(1).map(decodeURIComponent);
      if (first === "version") return { status: 200, body: { version: STAND_IN_VERSION } };
      if (first === "reset" && method === "POST") {
        for (const proxy of proxies.values()) {
          proxy.toxics = [];
          await proxy.enable();
        }
        return { status: 204 };
      }
      if (first !== "proxies") return MISSING;
      if (name === undefined) {
        if (method === "GET")
          return { status: 200, body: Object.fromEntries([...proxies].map(([key, one]) => [key, one.state()])) };
        const asked = body as Parameters<typeof add>[0];
        if (proxies.has(asked.name)) return { status: 409, body: { error: "proxy already exists" } };
        return { status: 201, body: (await add(asked)).state() };
      }
      const proxy = proxies.get(name);
      if (proxy === undefined) return MISSING;
      return toxics === "toxics" ? onToxic(proxy, method, toxic, body) : onProxy(proxy, method, body);
    },
  };
};

const textOf = async (request: IncomingMessage): Promise<string> => {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  return text;
};

const main = async (): Promise<void> => {
  const { values } = parseArgs({
    // toxiproxy-server takes its options with one dash.
    args: process.argv.slice(2).map((word) => word.replace(/^-(?=[a-z]{2})/, "--")),
    options: { host: { type: "string", default: "127.0.0.1" }, port: { type: "string" }, config: { type: "string" } },
  });
  const api = createApi(new Map());
  if (values.config !== undefined) {
    for (const one of JSON.parse(readFileSync(values.config, "utf8")) as Parameters<typeof api.add>[0][])
      await api.add(one);
  }
  const door = { bound: values.host, names: [] };
  const called = async (request: IncomingMessage): Promise<Answer> => {
    const text = await textOf(request);
    return api.call(request.method ?? "GET", request.url ?? "/", text === "" ? {} : (JSON.parse(text) as object));
  };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const foreign = whyForeign(request, door);
    const { status, body } =
      foreign !== null
        ? { status: foreign.status, body: { error: foreign.error } }
        : await called(request).catch((error: Error): Answer => ({ status: 500, body: { error: error.message } }));
    response
      .writeHead(status, { "content-type": "application/json" })
      .end(body === undefined ? "" : JSON.stringify(body));
  };
  createHttpServer((request, response) => {
    void answer(request, response).catch(() => response.destroy());
  }).listen(Number(values.port), values.host);
};

if (import.meta.main) await main();
