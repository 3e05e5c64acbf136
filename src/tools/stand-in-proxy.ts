/**
 * Replaces toxiproxy if neither it nor Go is available: links with the toxics of our faults (latency, timeout,
 * reset_peer, limit_data, slicer), over TCP or in the simulation's virtual time, and the part of toxiproxy's API that
 * Floodgate uses. Run as `node stand-in-proxy.ts -host HOST -port PORT -config FILE`.
 */
import { readFileSync } from "node:fs";
import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { parseArgs } from "node:util";
import { whyForeign } from "../contract/private-door.ts";
import { pause } from "../supervision/waiting.ts";
import { splitAddress } from "./link-probe.ts";
import { type Toxic, type ToxicEcho, whatIsWrongWith } from "./toxics.ts";

/** The network of a link: TCP, or the simulation's virtual network. */
type LinkNetwork = {
  connect(at: { host: string; port: number }): Socket;
  listen(server: Server, at: { host: string; port: number }): Promise<Pick<AddressInfo, "address" | "port">>;
};

const TCP: LinkNetwork = {
  connect: (at) => connect({ ...at, allowHalfOpen: true, noDelay: true }),
  listen: async (server, { host, port }) => {
    await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
    return server.address() as AddressInfo;
  },
};

export type LinkToxic = Omit<ToxicEcho, "stream"> & Pick<Toxic, "stream"> & { attributes: Record<string, number> };

/** What a toxic can do to one direction of a connection. `seen`: bytes that the toxic has handled there before. */
type Meeting = { seen: number; pass(data: Buffer): void; answer(data: Buffer): void; close(): void; reset(): void };

export const TOXICS: Readonly<
  Record<string, (data: Buffer, attributes: LinkToxic["attributes"], meeting: Meeting) => unknown>
> = {
  latency: async (data, { latency = 0 }, { pass }) => {
    await pause(latency);
    pass(data);
  },
  timeout: async (_data, { timeout = 0 }, { close }) => {
    if (timeout === 0) return;
    await pause(timeout);
    close();
  },
  reset_peer: async (_data, { timeout = 0 }, { reset }) => {
    await pause(timeout);
    reset();
  },
  limit_data: (data, { bytes = 0 }, { seen, pass, close }) => {
    const left = Math.max(0, bytes - seen);
    if (left > 0) pass(data.subarray(0, left));
    if (data.length >= left) close();
  },
  slicer: async (data, { average_size: size = 1, delay = 0 }, { pass }) => {
    for (let at = 0; at < data.length; at += size) {
      if (at > 0) await pause(delay / 1000);
      pass(data.subarray(at, at + size));
    }
  },
};

type StatedLink = { name: string; listen: string; upstream: string; enabled?: boolean };
type LinkState = Required<StatedLink> & { toxics: LinkToxic[] };

export type StandInLink = Awaited<ReturnType<typeof openLink>>;

/** Opens a proxied link, controlled like a proxy of toxiproxy (`ProxyControl`). */
const openLink = async (stated: StatedLink, network: LinkNetwork = TCP, works = TOXICS) => {
  const { name, upstream, enabled: isWanted = true } = stated;
  let { listen } = stated;
  let server: Server | null = null;
  const open = new Set<Socket>();

  /** Sends data through the toxics of one direction, piece after piece, so that a slow toxic delays what follows. */
  const pump = (from: Socket, to: Socket, stream: LinkToxic["stream"], close: () => void, reset: () => void): void => {
    const seen = new WeakMap<LinkToxic, number>();
    const through = async (data: Buffer, [toxic, ...further]: readonly LinkToxic[]): Promise<void> => {
      if (toxic === undefined) {
        if (!to.destroyed && !to.write(data))
          await new Promise((resolve) => to.once("drain", resolve).once("close", resolve));
        return;
      }
      const before = seen.get(toxic) ?? 0;
      seen.set(toxic, before + data.length);
      const passed: Promise<void>[] = [];
      await works[toxic.type]?.(data, toxic.attributes, {
        seen: before,
        answer: (piece) => void from.write(piece),
        pass: (piece) => void passed.push(through(piece, further)),
        close: () => void Promise.all(passed).then(close),
        reset,
      });
      await Promise.all(passed);
    };
    let queue = Promise.resolve();
    from.on("data", (data: Buffer) => {
      from.pause();
      const toxics = () => link.toxics.filter((toxic) => toxic.stream === stream);
      queue = queue.then(() => through(data, toxics())).then(() => void from.resume());
    });
    from.on("end", () => void queue.then(() => to.end()));
  };

  const accept = (client: Socket): void => {
    const service = network.connect(splitAddress(upstream));
    const end = (): void => void [client, service].map((socket) => socket.destroy());
    const reset = (): void => {
      client.resetAndDestroy();
      service.destroy();
    };
    for (const socket of [client, service]) {
      open.add(socket);
      socket.on("error", end).on("close", () => {
        open.delete(socket);
        end();
      });
    }
    pump(client, service, "upstream", end, reset);
    pump(service, client, "downstream", end, reset);
  };

  const link = {
    ...{ name, apiUrl: "in-process:", toxics: [] as LinkToxic[] },
    url: (): string => `http://${listen}`,
    state: (): LinkState => structuredClone({ name, listen, upstream, enabled: server !== null, toxics: link.toxics }),
    read: async (): Promise<LinkState> => link.state(),
    addToxic: async (toxic: Toxic): Promise<void> => {
      const wrong = whatIsWrongWith(toxic);
      if (wrong !== null) throw new Error(wrong);
      link.toxics.push({ ...structuredClone(toxic), toxicity: 1 });
    },
    updateToxic: async (called: string, attributes: Record<string, number>): Promise<void> => {
      for (const toxic of link.toxics) if (toxic.name === called) Object.assign(toxic.attributes, attributes);
    },
    removeToxic: async (called: string): Promise<void> => {
      const toxic = link.toxics.find((one) => one.name === called);
      link.toxics = link.toxics.filter((one) => one !== toxic);
      // As in toxiproxy, connections are closed, because the data that was dropped is never answered.
      if (toxic?.type === "timeout") link.cut();
    },
    setEnabled: async (enabled: boolean): Promise<void> => {
      if (enabled === (server !== null)) return;
      if (!enabled) {
        const closed = new Promise((resolve) => server?.close(resolve));
        server = null;
        link.cut();
        await closed;
        return;
      }
      const listening = createServer({ allowHalfOpen: true, noDelay: true }, accept);
      const bound = await network.listen(listening, splitAddress(listen));
      listen = `${bound.address}:${bound.port}`;
      server = listening;
    },
    cut: (): void => {
      for (const socket of open) socket.destroy();
    },
  };
  await link.setEnabled(isWanted);
  return link;
};

/** Opens a link in front of the service with this URL, listening on a free port. */
export const linkBefore = (service: string, name: string, network?: LinkNetwork, works?: typeof TOXICS) =>
  openLink({ name, listen: "127.0.0.1:0", upstream: new URL(service).host }, network, works);

type Answer = { status: number; body?: unknown };
const refused = (status: number, error: string): Answer => ({ status, body: { error } });
const MISSING = refused(404, "proxy not found");

const onToxic = async (proxy: StandInLink, method: string, name: string | undefined, body: Partial<LinkToxic>) => {
  const toxic = proxy.toxics.find((one) => one.name === (name ?? body.name));
  if (name === undefined) {
    const added = { toxicity: 1, stream: "downstream", attributes: {}, ...body } as LinkToxic;
    if (!Object.hasOwn(TOXICS, added.type)) return refused(400, `the stand-in has no toxic "${added.type}"`);
    if (toxic !== undefined) return refused(409, "toxic already exists");
    proxy.toxics.push(added);
    return { status: 200, body: added };
  }
  if (toxic === undefined) return refused(404, "toxic not found");
  if (method === "DELETE") {
    await proxy.removeToxic(name);
    return { status: 204 };
  }
  Object.assign(toxic.attributes, body.attributes);
  return { status: 200, body: toxic };
};

const proxies = new Map<string, StandInLink>();

const add = async (stated: StatedLink): Promise<StandInLink> => {
  const proxy = await openLink(stated);
  proxies.set(stated.name, proxy);
  return proxy;
};

const call = async (method: string, path: string, body: object): Promise<Answer> => {
  const [first, name, toxics, toxic] = path.split("/").slice(1).map(decodeURIComponent);
  if (first === "version") return { status: 200, body: { version: "stand-in" } };
  if (first === "reset" && method === "POST") {
    for (const proxy of proxies.values()) {
      proxy.toxics = [];
      await proxy.setEnabled(true);
    }
    return { status: 204 };
  }
  if (first !== "proxies") return MISSING;
  if (name === undefined) {
    if (method === "GET")
      return { status: 200, body: Object.fromEntries([...proxies].map(([key, one]) => [key, one.state()])) };
    const stated = body as StatedLink;
    if (proxies.has(stated.name)) return refused(409, "proxy already exists");
    return { status: 201, body: (await add(stated)).state() };
  }
  const proxy = proxies.get(name);
  if (proxy === undefined) return MISSING;
  if (toxics === "toxics") return onToxic(proxy, method, toxic, body);
  if (method === "DELETE") {
    await proxy.setEnabled(false);
    proxies.delete(name);
    return { status: 204 };
  }
  const { enabled } = body as Partial<StatedLink>;
  if (method !== "GET" && enabled !== undefined) await proxy.setEnabled(enabled);
  return { status: 200, body: proxy.state() };
};

const answerTo = async (request: IncomingMessage, bound: string): Promise<Answer> => {
  const foreign = whyForeign(request, { bound, names: [] });
  if (foreign !== null) return refused(foreign.status, foreign.error);
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  return call(request.method ?? "GET", request.url ?? "/", text === "" ? {} : (JSON.parse(text) as object));
};

const main = async (): Promise<void> => {
  const { values } = parseArgs({
    // toxiproxy-server takes its options with one dash.
    args: process.argv.slice(2).map((word) => word.replace(/^-(?=[a-z]{2})/, "--")),
    options: { host: { type: "string", default: "127.0.0.1" }, port: { type: "string" }, config: { type: "string" } },
  });
  const { host, port, config } = values;
  for (const one of config === undefined ? [] : (JSON.parse(readFileSync(config, "utf8")) as StatedLink[]))
    await add(one);
  createHttpServer((request, response) => {
    void answerTo(request, host)
      .catch((error: Error) => refused(500, error.message))
      .then(({ status, body }) =>
        response
          .writeHead(status, { "content-type": "application/json" })
          .end(body === undefined ? "" : JSON.stringify(body)),
      )
      .catch(() => response.destroy());
  }).listen(Number(port), host);
};

if (import.meta.main) await main();
