/** Listeners and connections in this process: the part of a TCP socket that Node's HTTP and undici use. */
import type { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import type { Network } from "../platform/links/network.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** One-way latency. */
const HOP_MS = 0.1;

/** What arrives at the other end, in order. */
type Packet = { data: Buffer } | "end" | "gone" | "reset";

const socketError = (code: string): Error => Object.assign(new Error(`virtual link: ${code}`), { code });

class VirtualSocket extends Duplex {
  readonly remoteAddress = "127.0.0.1";
  readonly remoteFamily = "IPv4";
  readonly localAddress = "127.0.0.1";
  readonly remotePort: number;
  /** Packets written before the connection exists. */
  readonly #held: Packet[] = [];
  out: (packet: Packet) => void = (packet) => void this.#held.push(packet);
  #isReset = false;
  /** The other end has closed and reads no more. */
  #isAlone = false;

  constructor(remotePort: number, allowHalfOpen: boolean) {
    super({ allowHalfOpen });
    this.remotePort = remotePort;
  }

  leadsTo(out: (packet: Packet) => void): void {
    this.out = out;
    for (const packet of this.#held) out(packet);
  }

  receive(packet: Packet): void {
    if (this.destroyed) {
      // Data that arrives at a closed socket is answered with a reset.
      if (typeof packet === "object") this.out("reset");
      return;
    }
    if (packet === "reset") this.destroy(socketError("ECONNRESET"));
    else if (packet === "end" || packet === "gone") {
      this.#isAlone = packet === "gone";
      if (!this.readableEnded) this.push(null);
    } else this.push(packet.data);
  }

  override _read(): void {
    // Data is pushed on arrival: both ends live in one process, and the data is small.
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    if (!this.#isAlone) this.out({ data: Buffer.from(chunk) });
    done(this.#isAlone ? socketError("EPIPE") : undefined);
  }

  override _final(done: () => void): void {
    this.out("end");
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.out(this.#isReset ? "reset" : "gone");
    done(error);
  }

  resetAndDestroy(): this {
    this.#isReset = true;
    return this.destroy();
  }

  destroySoon(): void {
    if (this.writableFinished) this.destroy();
    else {
      this.once("finish", () => this.destroy());
      this.end();
    }
  }

  readonly setNoDelay = (): this => this;
  readonly setKeepAlive = (): this => this;
  readonly setTimeout = (): this => this;
  readonly ref = (): this => this;
  readonly unref = (): this => this;
}

export type VirtualNetwork = Omit<Network, "listen"> & {
  listen(server: EventEmitter, at: { port: number }): ReturnType<Network["listen"]>;
};

const FIRST_PORT = 1024;

export const createVirtualNetwork = (time: VirtualTime): VirtualNetwork => {
  const listeners = new Map<number, EventEmitter>();
  let lastPort = FIRST_PORT;
  let caller = 0;
  return {
    listen: async (server, at) => {
      const port = at.port === 0 ? ++lastPort : at.port;
      listeners.set(port, server);
      server.once("close", () => listeners.delete(port));
      return { address: "127.0.0.1", family: "IPv4", port };
    },
    connect: ({ port: to }) => {
      const client = new VirtualSocket(to, false);
      time.after(2 * HOP_MS, () => {
        if (client.destroyed) return;
        const listener = listeners.get(to);
        if (listener === undefined) return void client.destroy(socketError("ECONNREFUSED"));
        caller += 1;
        const server = new VirtualSocket(caller, true);
        server.leadsTo((packet) => time.after(HOP_MS, () => client.receive(packet)));
        listener.emit("connection", server);
        client.leadsTo((packet) => time.after(HOP_MS, () => server.receive(packet)));
        client.emit("connect");
      });
      return client as unknown as Socket;
    },
  };
};
