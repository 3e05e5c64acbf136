/**
 * A link that can be broken, in place of a proxy of toxiproxy: the toxics of our faults (latency, timeout, reset_peer,
 * limit_data, slicer) on the connections of a network. The stand-in proxy serves it over TCP, the simulation in virtual time.
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** TCP, or a virtual network. */
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

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export type LinkToxic = {
  name: string;
  type: string;
  stream: "upstream" | "downstream";
  toxicity: number;
  attributes: Record<string, number>;
};

/** One direction of a connection, as a toxic acts on it; `seen`: bytes that this toxic has met there. */
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

const splitAddress = (address: string): { host: string; port: number } => {
  const [host = "", port] = address.split(":");
  return { host, port: Number(port) };
};

export type StatedLink = { name: string; listen: string; upstream: string; enabled?: boolean };

export class StandInLink {
  toxics: LinkToxic[] = [];
  readonly #stated: StatedLink;
  readonly #network: LinkNetwork;
  readonly #works: typeof TOXICS;
  #server: Server | null = null;
  readonly #open = new Set<Socket>();

  constructor(stated: StatedLink, network: LinkNetwork = TCP, works = TOXICS) {
    this.#stated = { ...stated };
    this.#network = network;
    this.#works = works;
  }

  state(): Required<StatedLink> & { toxics: LinkToxic[] } {
    return { ...this.#stated, enabled: this.#server !== null, toxics: this.toxics };
  }

  removeToxic(toxic: LinkToxic): void {
    this.toxics = this.toxics.filter((one) => one !== toxic);
    // As toxiproxy does: what it has swallowed will never be answered.
    if (toxic.type === "timeout") this.cut();
  }

  async setEnabled(enabled: boolean): Promise<void> {
    if (enabled === (this.#server !== null)) return;
    if (!enabled) {
      const closed = new Promise((resolve) => this.#server?.close(resolve));
      this.#server = null;
      this.cut();
      await closed;
      return;
    }
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#accept(client));
    const bound = await this.#network.listen(server, splitAddress(this.#stated.listen));
    this.#stated.listen = `${bound.address}:${bound.port}`;
    this.#server = server;
  }

  cut(): void {
    for (const socket of this.#open) socket.destroy();
  }

  #accept(client: Socket): void {
    const service = this.#network.connect(splitAddress(this.#stated.upstream));
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
  #pump(from: Socket, to: Socket, stream: LinkToxic["stream"], close: () => void, reset: () => void): void {
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
      await this.#works[toxic.type]?.(data, toxic.attributes, {
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
      queue = queue
        .then(() =>
          through(
            data,
            this.toxics.filter((toxic) => toxic.stream === stream),
          ),
        )
        .then(() => void from.resume());
    });
    from.on("end", () => void queue.then(() => to.end()));
  }
}
