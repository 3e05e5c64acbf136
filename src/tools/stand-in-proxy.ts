/**
 * Replaces toxiproxy if neither it nor Go is available: links with the toxics of our faults (latency, timeout,
 * reset_peer, limit_data, slicer), over TCP or in the simulation's virtual time, and the part of toxiproxy's API that
 * Floodgate uses. Run as `node stand-in-proxy.ts -host HOST -port PORT -config FILE`.
 */
import { readFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { parseArgs } from "node:util";
import { type FastifyError, type FastifyInstance, type FastifyRequest, fastify } from "fastify";
import { whyForeign } from "../contract/private-door.ts";
import { pause } from "../supervision/waiting.ts";
import { splitAddress } from "./link-probe.ts";
import type { Toxic, ToxicEcho } from "./toxics.ts";

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

const refuse = (statusCode: number, message: string): never => {
  throw Object.assign(new Error(message), { statusCode });
};

const openApi = async (host: string, stated: readonly StatedLink[]): Promise<FastifyInstance> => {
  const proxies = new Map<string, StandInLink>();
  const add = async (link: StatedLink): Promise<LinkState> => {
    if (proxies.has(link.name)) refuse(409, "proxy already exists");
    const proxy = await openLink(link);
    proxies.set(link.name, proxy);
    return proxy.state();
  };
  for (const link of stated) await add(link);
  type To = { Params: { name: string; toxic: string }; Body: Partial<StatedLink & LinkToxic> };
  const proxyOf = ({ params }: Pick<FastifyRequest<To>, "params">): StandInLink =>
    proxies.get(params.name) ?? refuse(404, "proxy not found");

  const api = fastify({ exposeHeadRoutes: false });
  api.addHook("onRequest", async ({ raw }) => {
    const foreign = whyForeign(raw, { bound: host, names: [] });
    if (foreign !== null) refuse(foreign.status, foreign.error);
  });
  api.setErrorHandler(({ statusCode = 500, message }: FastifyError, _, reply) =>
    reply.code(statusCode).send({ error: message }),
  );
  api.get("/version", async () => ({ version: "stand-in" }));
  api.post("/reset", async () => {
    for (const proxy of proxies.values()) {
      proxy.toxics = [];
      await proxy.setEnabled(true);
    }
    return {};
  });
  api.get("/proxies", async () => Object.fromEntries([...proxies].map(([name, proxy]) => [name, proxy.state()])));
  api.post("/proxies", async ({ body }) => add(body as StatedLink));
  api.get<To>("/proxies/:name", async (request) => proxyOf(request).state());
  const change = async (request: FastifyRequest<To>): Promise<LinkState> => {
    const proxy = proxyOf(request);
    const { enabled } = request.body;
    if (enabled !== undefined) await proxy.setEnabled(enabled);
    return proxy.state();
  };
  api.post<To>("/proxies/:name", change);
  api.patch<To>("/proxies/:name", change);
  api.delete<To>("/proxies/:name", async (request) => {
    await proxyOf(request).setEnabled(false);
    proxies.delete(request.params.name);
    return {};
  });
  api.post<To>("/proxies/:name/toxics", async (request) => {
    const [proxy, toxic] = [proxyOf(request), request.body as Toxic];
    if (!Object.hasOwn(TOXICS, toxic.type)) refuse(400, `the stand-in has no toxic "${toxic.type}"`);
    if (proxy.toxics.some(({ name }) => name === toxic.name)) refuse(409, "toxic already exists");
    await proxy.addToxic(toxic);
    return toxic;
  });
  api.patch<To>("/proxies/:name/toxics/:toxic", async (request) => {
    await proxyOf(request).updateToxic(request.params.toxic, request.body.attributes ?? {});
    return {};
  });
  api.delete<To>("/proxies/:name/toxics/:toxic", async (request) => {
    await proxyOf(request).removeToxic(request.params.toxic);
    return {};
  });
  return api;
};

if (import.meta.main) {
  const { values } = parseArgs({
    // toxiproxy-server takes its options with one dash.
    args: process.argv.slice(2).map((word) => word.replace(/^-(?=[a-z]{2})/, "--")),
    options: { host: { type: "string", default: "127.0.0.1" }, port: { type: "string" }, config: { type: "string" } },
  });
  const { host, port, config } = values;
  const api = await openApi(host, config === undefined ? [] : JSON.parse(readFileSync(config, "utf8")));
  await api.listen({ host, port: Number(port) });
}
