/**
 * A clock that jumps from one timer to the next as soon as everything due has been done. It replaces the timers of its thread, which
 * must run nothing else. Timers of one moment fire in the order in which they were set. The virtual
 * network delivers by this clock.
 */

import type { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { Heap } from "../history/heap.ts";
import type { Network } from "../platform/links/http-service.ts";

/**
 * Virtual time of one `setImmediate`, so that time passes for code that polls by `setImmediate`: long, because the driver polls
 * for the last 0.15 ms before each call, and each turn takes real time.
 */
const TURN_MS = 0.05;

/** `run` is `null` once the timer is cancelled. */
type Entry = { run: (() => void) | null };

export type VirtualTime = ReturnType<typeof installVirtualTime>;

class VirtualTimer {
  readonly #set: (timer: VirtualTimer) => Entry;
  #entry: Entry;
  constructor(set: (timer: VirtualTimer) => Entry) {
    this.#set = set;
    this.#entry = set(this);
  }
  close(): this {
    this.#entry.run = null;
    return this;
  }
  refresh(): this {
    this.#entry.run = null;
    this.#entry = this.#set(this);
    return this;
  }
  readonly ref = (): this => this;
  readonly unref = (): this => this;
  readonly hasRef = (): boolean => true;
}

/** `startMs`: the wall clock's reading when it begins, in milliseconds since 1970. */
export const installVirtualTime = (startMs: number) => {
  const real = { setImmediate: globalThis.setImmediate, setTimeout: globalThis.setTimeout };
  let queue = new Heap<Entry>();
  let nowMs = 0;
  let order = 0;

  const add = (ms: number, run: () => void): Entry => {
    const entry = { run };
    queue.push(nowMs + Math.max(0, ms), entry, order++);
    return entry;
  };
  const cancel = (timer: unknown): void => {
    if (timer instanceof VirtualTimer) timer.close();
  };
  type Callback = (...args: unknown[]) => void;
  // Node raises every delay below one millisecond to one.
  const atLeast = (ms: number | undefined): number => (ms !== undefined && ms >= 1 ? ms : 1);
  const virtual = {
    setTimeout: (run: Callback, ms?: number, ...args: unknown[]) =>
      new VirtualTimer(() => add(atLeast(ms), () => run(...args))),
    setInterval: (run: Callback, ms?: number, ...args: unknown[]) =>
      new VirtualTimer((timer) =>
        add(atLeast(ms), () => {
          timer.refresh();
          run(...args);
        }),
      ),
    setImmediate: (run: Callback, ...args: unknown[]) => new VirtualTimer(() => add(TURN_MS, () => run(...args))),
    clearTimeout: cancel,
    clearInterval: cancel,
    clearImmediate: cancel,
  };
  Object.assign(globalThis, virtual);
  // The driver sleeps by this (drivers/open-loop/play-schedule.ts): the clock moves on and no timer fires.
  Atomics.wait = ((_cells: Int32Array, _at: number, _value: number, forMs = 0) => {
    nowMs += forMs;
    return "timed-out";
  }) as typeof Atomics.wait;
  performance.now = () => nowMs;
  Date.now = () => Math.floor(startMs + nowMs);

  const time = {
    nowMs: (): number => nowMs,
    after: (ms: number, run: () => void): void => void add(ms, run),
    /** Lets time pass until the promise has settled. Rejects when nothing is left that could settle it, or it takes too long. */
    until: async <T>(promise: Promise<T>, withinMs: number): Promise<T> => {
      const lastMs = nowMs + withinMs;
      let nextMs = nowMs;
      let isOver = false;
      const over = (): void => {
        isOver = true;
      };
      promise.then(over, over);
      for (;;) {
        // A real turn of the event loop runs everything that is due without a timer (promises, ticks).
        await new Promise<void>((resolve) => {
          if (time.waitsForReal) real.setTimeout(resolve, 1);
          else real.setImmediate(resolve);
        });
        if (isOver) return promise;
        let run: Entry["run"] = null;
        for (; run === null; run = (queue.pop() as Entry).run) {
          if (queue.size === 0) throw new Error("virtual time stands still: nothing is waited for any more");
          nextMs = queue.least;
        }
        if (nextMs > lastMs) throw new Error(`it has not ended within ${withinMs} ms of virtual time`);
        nowMs = Math.max(nowMs, nextMs);
        run();
      }
    },
    pause: (ms: number): Promise<void> => new Promise((resolve) => void add(ms, resolve)),
    /** Drops every timer and begins anew, so that the next deployment finds the same time as the first. */
    clear: (): void => {
      queue = new Heap();
      [nowMs, order] = [0, 0];
    },
    /** Whether each step also waits a real millisecond, for modules that load in the background at their first use. */
    waitsForReal: false,
  };
  return time;
};

// Listeners and connections in this process: the part of a TCP socket that Node's HTTP and undici use.

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

  /** Sends what was written while corked as one packet: Node writes each chunk of a body in four pieces. */
  override _writev(pieces: { chunk: Buffer }[], done: (error?: Error) => void): void {
    this._write(Buffer.concat(pieces.map(({ chunk }) => chunk)), "buffer", done);
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
