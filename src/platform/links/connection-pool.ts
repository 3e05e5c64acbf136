/**
 * A few kept connections to one address, for requests of many callers. Nothing is sent twice. A request that is given up takes
 * its connection with it, so that after a heal no dead connection is met again.
 */
import type { Socket } from "node:net";
import { type Heard, type KeptConnection, keepConnection } from "./kept-connection.ts";

type PoolSettings = {
  /** A connection being made: it emits `connect`, or `error`. */
  connect(): Socket;
  connectTimeoutMs: number;
  /** Requests beyond so many wait for one of those under way. */
  connections: number;
};

export type ConnectionPool = {
  /** Rejects with the signal's reason, or with what ended the connection. */
  ask(request: Buffer, signal?: AbortSignal): Promise<Heard>;
  /** Ends all connections, and with them what is under way. */
  close(): void;
};

/** What idles for so long is closed, whatever the server offers: after an outage a pool is soon as small as before. */
const IDLE_MS = 4_000;

type Request = { bytes: Buffer; slot: Slot | null; resolve(heard: Heard): void; reject(error: unknown): void };

type Slot = { connection: KeptConnection; isConnected: boolean; request: Request | null; idleSinceMs: number };

const takeOut = <T>(list: T[], item: T): void => {
  const at = list.indexOf(item);
  if (at !== -1) list.splice(at, 1);
};

export const createPool = ({ connect, connectTimeoutMs, connections }: PoolSettings): ConnectionPool => {
  const slots = new Set<Slot>();
  /** The one that idles longest first; the next request takes the last. */
  const idle: Slot[] = [];
  const waiting: Request[] = [];
  let sweeping: NodeJS.Timeout | undefined;
  let closed: Error | null = null;

  const closeIdle = (): void => {
    sweeping = undefined;
    const longAgoMs = performance.now() - IDLE_MS;
    while (idle[0] !== undefined && idle[0].idleSinceMs <= longAgoMs) idle.shift()?.connection.close();
    if (idle[0] !== undefined) sweeping = setTimeout(closeIdle, idle[0].idleSinceMs - longAgoMs).unref();
  };

  const openSlot = (): Slot => {
    const socket = connect();
    const connection = keepConnection(socket, {
      answered: (heard) => {
        slot.request?.resolve(heard);
        slot.request = null;
        if (heard.isLast) {
          connection.close();
          return;
        }
        slot.idleSinceMs = performance.now();
        idle.push(slot);
        sweeping ??= setTimeout(closeIdle, IDLE_MS).unref();
        serve();
      },
      gone: (error) => {
        clearTimeout(timer);
        slots.delete(slot);
        takeOut(idle, slot);
        slot.request?.reject(error);
        serve();
      },
    });
    const slot: Slot = { connection, isConnected: false, request: null, idleSinceMs: 0 };
    const timer = setTimeout(
      () => connection.close(new Error(`no connection within ${connectTimeoutMs} ms`)),
      connectTimeoutMs,
    );
    socket.once("connect", () => {
      clearTimeout(timer);
      slot.isConnected = true;
      if (slot.request !== null) connection.ask(slot.request.bytes);
    });
    slots.add(slot);
    return slot;
  };

  const serve = (): void => {
    while (waiting.length > 0 && (idle.length > 0 || slots.size < connections)) {
      const request = waiting.shift() as Request;
      const slot = idle.pop() ?? openSlot();
      slot.request = request;
      request.slot = slot;
      if (slot.isConnected) slot.connection.ask(request.bytes);
    }
  };

  return {
    ask: (bytes, signal) =>
      new Promise((resolve, reject) => {
        if (closed !== null) return reject(closed);
        if (signal?.aborted) return reject(signal.reason);
        const request: Request = { bytes, slot: null, resolve, reject };
        signal?.addEventListener("abort", () => {
          reject(signal.reason);
          if (request.slot === null) takeOut(waiting, request);
          else if (request.slot.request === request) request.slot.connection.close();
        });
        waiting.push(request);
        serve();
      }),
    close: () => {
      closed = new Error("its client was closed");
      for (const request of waiting.splice(0)) request.reject(closed);
      for (const { connection } of slots) connection.close(closed);
      clearTimeout(sweeping);
    },
  };
};
