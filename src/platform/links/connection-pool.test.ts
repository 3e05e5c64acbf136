import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect, Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../../supervision/waiting.ts";
import { createPool } from "./connection-pool.ts";
import { requestBytes } from "./kept-connection.ts";

const ask = (path: string): Buffer => requestBytes("GET", path, { host: "h" }, undefined);

/** A service that holds its answers until they are let go. */
const startHolding = async (connections: number) => {
  const held: { path: string; letGo(connection?: "close"): void }[] = [];
  let opened = 0;
  let open = 0;
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const path = request.url as string;
    const letGo = (connection?: "close"): void => {
      if (connection !== undefined) response.setHeader("connection", connection);
      response.end(path);
    };
    held.push({ path, letGo });
  });
  server.on("connection", (socket) => {
    opened += 1;
    open += 1;
    socket.on("close", () => {
      open -= 1;
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  const pool = createPool({ connect: () => connect(port, "127.0.0.1"), connectTimeoutMs: 5_000, connections });
  onTestFinished(() => {
    pool.close();
    server.closeAllConnections();
    server.close();
  });
  const pathsHeld = () => held.map(({ path }) => path);
  const untilHeld = async (n: number): Promise<void> => {
    expect(await waitUntil(async () => held.length === n, { forMs: 10_000, pollMs: 5 })).toMatchObject({ met: true });
  };
  const textOf = async (path: string, signal?: AbortSignal): Promise<string> =>
    pool.ask(ask(path), signal).then(
      ({ body }) => body.toString(),
      (error: Error) => `failed: ${error.message}`,
    );
  return { pool, held, pathsHeld, untilHeld, textOf, opened: () => opened, open: () => open };
};

describe("a pool of kept connections", () => {
  test("takes a connection again, and opens no more than it may: the next request waits for an answer", async () => {
    const { held, pathsHeld, untilHeld, textOf, opened } = await startHolding(2);
    const said = ["/a", "/b", "/c"].map((path) => textOf(path));
    await untilHeld(2);
    expect(pathsHeld()).toEqual(["/a", "/b"]);
    held[0]?.letGo();
    await untilHeld(3);
    held[1]?.letGo();
    held[2]?.letGo();
    expect(await Promise.all(said)).toEqual(["/a", "/b", "/c"]);
    expect(opened()).toBe(2);
  });

  test("a request that is given up takes its connection with it, and the one that waited is sent over another", async () => {
    const { held, untilHeld, textOf, opened, open } = await startHolding(1);
    const abort = new AbortController();
    const [given, waited] = [textOf("/a", abort.signal), textOf("/b")];
    await untilHeld(1);
    abort.abort(new Error("nobody waits"));
    expect(await given).toBe("failed: nobody waits");
    await untilHeld(2);
    held[1]?.letGo();
    expect(await waited).toBe("/b");
    expect([opened(), open()]).toEqual([2, 1]);
  });

  test("one that is given up while it waits is never sent, and one that comes too late neither", async () => {
    const { held, pathsHeld, untilHeld, textOf } = await startHolding(1);
    const abort = new AbortController();
    const [first, given] = [textOf("/a"), textOf("/b", abort.signal)];
    await untilHeld(1);
    abort.abort(new Error("nobody waits"));
    const late = textOf("/c", abort.signal);
    const last = textOf("/d");
    held[0]?.letGo();
    await untilHeld(2);
    held[1]?.letGo();
    expect(await Promise.all([first, given, late, last])).toEqual([
      "/a",
      "failed: nobody waits",
      "failed: nobody waits",
      "/d",
    ]);
    expect(pathsHeld()).toEqual(["/a", "/d"]);
  });

  test("a signal that comes after the answer leaves the connection alone", async () => {
    const { held, untilHeld, textOf, opened } = await startHolding(1);
    const abort = new AbortController();
    const first = textOf("/a", abort.signal);
    await untilHeld(1);
    held[0]?.letGo();
    expect(await first).toBe("/a");
    const second = textOf("/b");
    await untilHeld(2);
    abort.abort();
    held[1]?.letGo();
    expect(await second).toBe("/b");
    expect(opened()).toBe(1);
  });

  test("behind an answer that is the last one comes a new connection", async () => {
    const { held, untilHeld, textOf, opened } = await startHolding(1);
    const said = [textOf("/a"), textOf("/b")];
    await untilHeld(1);
    held[0]?.letGo("close");
    await untilHeld(2);
    held[1]?.letGo();
    expect(await Promise.all(said)).toEqual(["/a", "/b"]);
    expect(opened()).toBe(2);
  });

  test("no connection in time: the request fails with that reason", async () => {
    const silent = createPool({ connect: () => new Socket(), connectTimeoutMs: 20, connections: 1 });
    await expect(silent.ask(ask("/a"))).rejects.toThrow("no connection within 20 ms");
    silent.close();
  });

  test("nobody listens: each request fails at once, with what the system said", async () => {
    const nowhere = createPool({ connect: () => connect(1, "127.0.0.1"), connectTimeoutMs: 60_000, connections: 1 });
    for (const path of ["/a", "/b"]) await expect(nowhere.ask(ask(path))).rejects.toThrow("ECONNREFUSED");
    nowhere.close();
  });

  test("when it is closed, what waits, what is under way and what comes fails", async () => {
    const { pool, untilHeld, textOf } = await startHolding(1);
    const said = [textOf("/a"), textOf("/b")];
    await untilHeld(1);
    pool.close();
    const closed = "failed: its client was closed";
    expect(await Promise.all([...said, textOf("/c")])).toEqual([closed, closed, closed]);
  });
});
