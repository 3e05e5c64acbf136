/**
 * Listeners, connections and breakable links in this process: as much of a TCP socket as Node's HTTP and undici use,
 * and a proxy that acts as toxiproxy does.
 */

import type { Server } from "node:http";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import type { Network } from "../platform/links/network.ts";
import { type Toxic, type ToxicEcho, whatIsWrongWith } from "../tools/toxics.ts";
import type { ProxyControl } from "../tools/toxiproxy.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** From one end to the other, in milliseconds. */
const HOP_MS = 0.1;
const BYTES_PER_KB = 1000;

type Stream = "upstream" | "downstream";
type Due = { atMs: number; packet: Packet };
/** What is on its way in one direction of one connection. */
type Flow = { to: VirtualSocket; due: Due[]; cancel: () => void; lastMs: number; passed: Map<string, number> };
type Connection = { client: VirtualSocket; server: VirtualSocket; flows: Record<Stream, Flow>; under: Set<string> };

export type VirtualLink = ProxyControl & {
  /** Joins two ends; `false` when the link refuses. */
  join(client: VirtualSocket, server: VirtualSocket): boolean;
};

const createVirtualLink = (name: string, time: VirtualTime): VirtualLink => {
  let enabled = true;
  const toxics: Toxic[] = [];
  const connections = new Set<Connection>();

  const deliver = (flow: Flow): void => {
    const nowMs = time.nowMs();
    while (flow.due.length > 0 && (flow.due[0] as Due).atMs <= nowMs) flow.to.receive((flow.due.shift() as Due).packet);
    const next = flow.due[0];
    if (next !== undefined) flow.cancel = time.after(next.atMs - nowMs, () => deliver(flow));
  };
  const schedule = (flow: Flow, packet: Packet, delayMs: number): void => {
    const atMs = Math.max(flow.lastMs, time.nowMs() + HOP_MS + delayMs);
    flow.lastMs = atMs;
    flow.due.push({ atMs, packet });
    if (flow.due.length === 1) flow.cancel = time.after(atMs - time.nowMs(), () => deliver(flow));
  };
  /** What a toxic held back goes out at once when it is taken away; see `release`. */
  const flush = (flow: Flow): void => {
    flow.cancel();
    const nowMs = time.nowMs();
    for (const due of flow.due) due.atMs = Math.min(due.atMs, nowMs + HOP_MS);
    flow.lastMs = Math.min(flow.lastMs, nowMs + HOP_MS);
    if (flow.due.length > 0) flow.cancel = time.after(HOP_MS, () => deliver(flow));
  };
  const holdsBack = (toxic: Toxic): boolean =>
    toxic.type === "slicer" || toxic.type === "bandwidth" || (toxic.type === "latency" && toxic.attributes.latency > 0);
  /** After a toxic of this direction is gone: what another one there still holds back stays where it is. */
  const release = (stream: Stream): void => {
    if (toxics.some((toxic) => toxic.stream === stream && holdsBack(toxic))) return;
    for (const { flows } of connections) flush(flows[stream]);
  };
  const close = (connection: Connection, how: "gone" | "reset"): void => {
    if (!connections.delete(connection)) return;
    for (const flow of Object.values(connection.flows)) {
      flow.cancel();
      flow.due = [];
    }
    // Both sides hear of it one hop later; what they write meanwhile is lost.
    connection.client.out = () => undefined;
    connection.server.out = () => undefined;
    time.after(HOP_MS, () => {
      connection.client.receive(how);
      connection.server.receive(how);
      for (const end of [connection.client, connection.server]) {
        time.after(HOP_MS, () => end.destroy(how === "reset" ? socketError("ECONNRESET") : undefined));
      }
    });
  };
  const closeAll = (): void => {
    for (const connection of [...connections]) close(connection, "gone");
  };

  /** Takes one chunk through the toxics of its direction. */
  const pass = (connection: Connection, stream: Stream, data: Buffer): void => {
    const flow = connection.flows[stream];
    let delayMs = 0;
    let pieces = [data];
    let gapMs = 0;
    for (const toxic of toxics) {
      if (toxic.stream !== stream) continue;
      const seen = flow.passed.get(toxic.name) ?? 0;
      switch (toxic.type) {
        case "latency":
          delayMs += toxic.attributes.latency;
          break;
        case "bandwidth":
          if (toxic.attributes.rate === 0) return;
          delayMs += data.length / (toxic.attributes.rate * BYTES_PER_KB);
          break;
        case "timeout":
          if (toxic.attributes.timeout > 0 && seen === 0) {
            time.after(toxic.attributes.timeout, () => close(connection, "gone"));
            flow.passed.set(toxic.name, 1);
          }
          return;
        case "reset_peer":
          // Connections that were open before see an ordinary end.
          close(connection, connection.under.has(toxic.name) ? "reset" : "gone");
          return;
        case "slicer": {
          const size = toxic.attributes.average_size;
          pieces = pieces.flatMap((piece) =>
            Array.from({ length: Math.ceil(piece.length / size) }, (_, at) =>
              piece.subarray(at * size, (at + 1) * size),
            ),
          );
          gapMs = toxic.attributes.delay / 1000;
          break;
        }
        case "limit_data": {
          const left = toxic.attributes.bytes - seen;
          flow.passed.set(toxic.name, seen + data.length);
          if (data.length < left) break;
          if (left > 0) flow.to.receive({ data: data.subarray(0, left) });
          close(connection, "gone");
          return;
        }
        case "slow_close":
          break;
      }
    }
    for (const [at, piece] of pieces.entries()) {
      if (at > 0 && gapMs > 0) flow.lastMs += gapMs;
      schedule(flow, { data: piece }, delayMs);
    }
  };

  const echo = (toxic: Toxic): ToxicEcho => ({ ...toxic, toxicity: 1, attributes: { ...toxic.attributes } });
  return {
    name,
    apiUrl: "virtual:",
    read: async () => ({ name, listen: name, upstream: name, enabled, toxics: toxics.map(echo) }),
    addToxic: async (toxic) => {
      const wrong = whatIsWrongWith(toxic);
      if (wrong !== null) throw new Error(wrong);
      toxics.push(structuredClone(toxic));
    },
    updateToxic: async (which, attributes) => {
      for (const toxic of toxics) if (toxic.name === which) Object.assign(toxic.attributes, attributes);
      release("upstream");
      release("downstream");
    },
    removeToxic: async (which) => {
      const at = toxics.findIndex((toxic) => toxic.name === which);
      if (at < 0) return;
      const [gone] = toxics.splice(at, 1);
      // Its removal closes every connection, also those that lost nothing (toxiproxy's timeout.go).
      if (gone?.type === "timeout") closeAll();
      if (gone !== undefined) release(gone.stream);
    },
    setEnabled: async (now) => {
      enabled = now;
      if (!now) closeAll();
    },
    join: (client, server) => {
      if (!enabled) return false;
      const flow = (to: VirtualSocket): Flow => ({
        to,
        due: [],
        cancel: () => undefined,
        lastMs: 0,
        passed: new Map(),
      });
      const connection: Connection = {
        client,
        server,
        under: new Set(toxics.map((toxic) => toxic.name)),
        flows: { upstream: flow(server), downstream: flow(client) },
      };
      connections.add(connection);
      const outOf =
        (stream: Stream) =>
        (packet: Packet): void => {
          if (typeof packet === "object") pass(connection, stream, packet.data);
          else schedule(connection.flows[stream], packet, 0);
          if (connection.client.destroyed && connection.server.destroyed) connections.delete(connection);
        };
      client.out = outOf("upstream");
      server.out = outOf("downstream");
      return true;
    },
  };
};

/** What arrives at the other end, in order. */
type Packet = { data: Buffer } | "end" | "gone" | "reset";

const socketError = (code: string): Error => Object.assign(new Error(`virtual link: ${code}`), { code });

class VirtualSocket extends Duplex {
  readonly remoteAddress = "127.0.0.1";
  readonly remoteFamily = "IPv4";
  readonly localAddress = "127.0.0.1";
  readonly remotePort: number;
  /** Where what is written goes; set by the network. */
  out: (packet: Packet) => void = () => undefined;
  #isReset = false;
  /** Nobody reads what is written any more. */
  #isAlone = false;

  constructor(remotePort: number, allowHalfOpen: boolean) {
    super({ allowHalfOpen });
    this.remotePort = remotePort;
  }

  receive(packet: Packet): void {
    if (this.destroyed) {
      // What arrives at a closed socket is answered with a reset.
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
    // Pushed as it comes: both ends live in one process, and what is written is small.
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    if (this.#isAlone) done(socketError("EPIPE"));
    else {
      this.out({ data: Buffer.from(chunk) });
      done();
    }
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

  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
  setTimeout(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
}

export type VirtualNetwork = Network & {
  /** Puts a link before a listener; returns it with the address that leads through it. */
  through(name: string, url: string): { link: VirtualLink; url: string };
};

const FIRST_PORT = 1024;

export const createVirtualNetwork = (time: VirtualTime): VirtualNetwork => {
  const listeners = new Map<number, { server: Server; link: VirtualLink }>();
  let port = FIRST_PORT;
  let caller = 0;
  return {
    listen: async (server) => {
      port += 1;
      listeners.set(port, { server, link: createVirtualLink(`port ${port}`, time) });
      return { address: "127.0.0.1", family: "IPv4", port };
    },
    through: (name, url) => {
      const behind = listeners.get(Number(new URL(url).port));
      if (behind === undefined) throw new Error(`nobody listens at ${url}`);
      port += 1;
      const link = createVirtualLink(name, time);
      listeners.set(port, { server: behind.server, link });
      return { link, url: `http://127.0.0.1:${port}` };
    },
    connect: ({ port: to }) => {
      const client = new VirtualSocket(to, false);
      time.after(2 * HOP_MS, () => {
        if (client.destroyed) return;
        const there = listeners.get(to);
        caller += 1;
        const server = new VirtualSocket(caller, true);
        if (there === undefined || !there.link.join(client, server)) {
          client.destroy(socketError("ECONNREFUSED"));
          return;
        }
        there.server.emit("connection", server);
        client.emit("connect");
      });
      return client as unknown as Socket;
    },
  };
};
