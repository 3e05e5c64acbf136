import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../../supervision/waiting.ts";
import { createJsonClient } from "./batch.ts";
import { TCP } from "./http-service.ts";

type Held = { path: string; letGo(connection?: "close"): void; response: ServerResponse };

/** A service that holds its answers until they are let go. */
const startHolding = async (connections: number) => {
  const held: Held[] = [];
  let opened = 0;
  let open = 0;
  const server = createServer({ keepAliveTimeout: 60_000 }, (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url as string;
    const letGo = (connection?: "close"): void => {
      if (connection !== undefined) response.setHeader("connection", connection);
      response.end(JSON.stringify(path));
    };
    held.push({ path, letGo, response });
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
  const client = createJsonClient(`http://127.0.0.1:${port}`, { connections, connectTimeoutMs: 5_000 });
  onTestFinished(async () => {
    await client.close();
    server.closeAllConnections();
    server.close();
  });
  const untilHeld = async (n: number): Promise<void> => {
    expect(await waitUntil(async () => held.length === n, { forMs: 10_000, pollMs: 5 })).toMatchObject({ met: true });
  };
  const ask = (path: string, signal?: AbortSignal): Promise<unknown> =>
    client.request("GET", path, undefined, signal).catch((error: Error) => `failed: ${error.message}`);
  const untilOpen = async (n: number): Promise<void> => {
    expect(await waitUntil(async () => open === n, { forMs: 30_000, pollMs: 20 })).toMatchObject({ met: true });
  };
  return {
    client,
    held,
    pathsHeld: () => held.map(({ path }) => path),
    untilHeld,
    ask,
    opened: () => opened,
    untilOpen,
  };
};

test("idle connections are closed soon, though the server would keep them for a minute", async () => {
  const { held, untilHeld, ask, opened, untilOpen } = await startHolding(64);
  const said = Array.from({ length: 20 }, () => ask("/"));
  await untilHeld(20);
  for (const { letGo } of held) letGo();
  await Promise.all(said);
  expect(opened()).toBe(20);
  await untilOpen(0);
});

test("a connection is taken again, and no more are opened than may be: the next request waits for an answer", async () => {
  const { held, pathsHeld, untilHeld, ask, opened } = await startHolding(2);
  const said = ["/a", "/b", "/c"].map((path) => ask(path));
  await untilHeld(2);
  expect(pathsHeld().sort()).toEqual(["/a", "/b"]);
  held[0]?.letGo();
  held[1]?.letGo();
  await untilHeld(3);
  held[2]?.letGo();
  expect(await Promise.all(said)).toEqual(["/a", "/b", "/c"]);
  expect(opened()).toBe(2);
});

test("a request that is given up takes its connection with it, and the one that waited is sent over another", async () => {
  const { held, untilHeld, ask, opened, untilOpen } = await startHolding(1);
  const abort = new AbortController();
  const [given, waited] = [ask("/a", abort.signal), ask("/b")];
  await untilHeld(1);
  abort.abort(new Error("nobody waits"));
  expect(await given).toBe("failed: nobody waits");
  await untilHeld(2);
  held[1]?.letGo();
  expect(await waited).toBe("/b");
  expect(opened()).toBe(2);
  await untilOpen(1);
});

test("one that is given up while it waits is never sent, and one that comes too late neither", async () => {
  const { held, pathsHeld, untilHeld, ask } = await startHolding(1);
  const abort = new AbortController();
  const [first, given] = [ask("/a"), ask("/b", abort.signal)];
  await untilHeld(1);
  abort.abort(new Error("nobody waits"));
  const late = ask("/c", abort.signal);
  const last = ask("/d");
  held[0]?.letGo();
  await untilHeld(2);
  held[1]?.letGo();
  const gone = "failed: nobody waits";
  expect(await Promise.all([first, given, late, last])).toEqual(["/a", gone, gone, "/d"]);
  expect(pathsHeld()).toEqual(["/a", "/d"]);
});

test("a signal that comes after the answer leaves the connection alone", async () => {
  const { held, untilHeld, ask, opened } = await startHolding(1);
  const abort = new AbortController();
  const first = ask("/a", abort.signal);
  await untilHeld(1);
  held[0]?.letGo();
  expect(await first).toBe("/a");
  const second = ask("/b");
  await untilHeld(2);
  abort.abort();
  held[1]?.letGo();
  expect(await second).toBe("/b");
  expect(opened()).toBe(1);
});

test("behind an answer that is the last one comes a new connection", async () => {
  const { held, untilHeld, ask, opened } = await startHolding(1);
  const said = [ask("/a"), ask("/b")];
  await untilHeld(1);
  held[0]?.letGo("close");
  await untilHeld(2);
  held[1]?.letGo();
  expect(await Promise.all(said)).toEqual(["/a", "/b"]);
  expect(opened()).toBe(2);
});

test("a connection that is lost before or in the middle of an answer fails its request, which is not sent again", async () => {
  const { held, pathsHeld, untilHeld, ask } = await startHolding(1);
  for (const [at, path] of ["/a", "/b", "/c"].entries()) {
    const said = ask(path);
    await untilHeld(at + 1);
    const { response } = held[at] as Held;
    if (path === "/b") {
      response.writeHead(200, { "content-length": 10 });
      response.write("half");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    if (path === "/c") response.socket?.resetAndDestroy();
    else response.destroy();
    expect(await said).toContain("failed: ");
  }
  expect(pathsHeld()).toEqual(["/a", "/b", "/c"]);
});

test("no connection in time: the request fails with that reason", async () => {
  const network = { ...TCP, connect: () => new Socket() };
  const silent = createJsonClient("http://127.0.0.1:1", { network, connectTimeoutMs: 20, connections: 1 });
  await expect(silent.request("GET", "/a", undefined)).rejects.toThrow("no connection within 20 ms");
  await silent.close();
});

test("nobody listens: each request fails at once, with what the system said", async () => {
  const nowhere = createJsonClient("http://127.0.0.1:1", { connectTimeoutMs: 60_000, connections: 1 });
  for (const path of ["/a", "/b"])
    await expect(nowhere.request("GET", path, undefined)).rejects.toThrow("ECONNREFUSED");
  await nowhere.close();
});

test("when it is closed, what waits, what is under way and what comes fails", async () => {
  const { client, untilHeld, ask } = await startHolding(1);
  const said = [ask("/a"), ask("/b")];
  await untilHeld(1);
  await client.close();
  for (const one of [...said, ask("/c")]) expect(await one).toContain("failed: ");
});
