import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../../supervision/waiting.ts";
import { createJsonClient } from "./http-client.ts";

const ASKED_AT_ONCE = 20;

test("idle connections are closed soon, though the server would keep them for a minute", async () => {
  let open = 0;
  let most = 0;
  const waiting: (() => void)[] = [];
  const server = createServer({ keepAliveTimeout: 60_000 }, (_request, response) => {
    waiting.push(() => response.end("{}"));
    if (waiting.length === ASKED_AT_ONCE) for (const answer of waiting) answer();
  });
  server.on("connection", (socket) => {
    open += 1;
    most = Math.max(most, open);
    socket.on("close", () => {
      open -= 1;
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  const client = createJsonClient(`http://127.0.0.1:${port}`, { connections: 64, connectTimeoutMs: 5_000 });
  onTestFinished(async () => {
    await client.close();
    server.closeAllConnections();
    server.close();
  });

  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, () => client.request("GET", "/", undefined)));

  expect(most).toBe(ASKED_AT_ONCE);
  expect(await waitUntil(async () => open === 0, { forMs: 30_000, pollMs: 100 })).toMatchObject({ met: true });
});
