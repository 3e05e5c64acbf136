import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { createSecureServer, type Http2SecureServer } from "node:http2";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { lastEventOf, writeEvent } from "../contract/streams.ts";
import { createRunClock, wallUs } from "../supervision/waiting.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Transport } from "../target/target.ts";
import { TIMEOUTS } from "../workload/timeouts.ts";
import { sendRequest } from "./send-request.ts";
import { startStubApi } from "./stub-api.fixture.ts";
import { inFlightMax, openTransport } from "./transport.ts";

const run = promisify(execFile);
const clock = createRunClock(wallUs());
let folder = "";
let hasOpenssl = true;
const open: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-tls-"));
  const make = async (name: string, extra: string[]): Promise<void> => {
    const files = ["-keyout", join(folder, `${name}.key`), "-out", join(folder, `${name}.pem`)];
    const what = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    await run("openssl", [...what, ...files, "-subj", `/CN=${name}`, ...extra]);
  };
  try {
    await make("server", ["-addext", "subjectAltName=IP:127.0.0.1"]);
    await make("client", []);
  } catch {
    hasOpenssl = false;
    console.warn("SKIPPED: the tests of certificates and HTTP/2 need openssl");
  }
});
afterAll(() => rm(folder, { recursive: true }));
afterEach(async () => {
  for (const thing of open.splice(0)) await thing.close();
});

const portOf = async (server: Server | Http2SecureServer): Promise<number> => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
};

/** An HTTPS server of both versions that wants a client certificate, and answers with what it saw. */
const startTls = async (): Promise<string> => {
  const pem = (name: string) => readFileSync(join(folder, name));
  const server = createSecureServer(
    { key: pem("server.key"), cert: pem("server.pem"), ca: pem("client.pem"), requestCert: true, allowHTTP1: true },
    (req, res) => {
      res.writeHead(200, { "content-type": "text/event-stream" });
      res.write(writeEvent("token", { version: req.httpVersion }));
      res.end(writeEvent("done", {}));
    },
  );
  const sessions = new Set<{ destroy(): void }>();
  server.on("session", (session) => sessions.add(session));
  const port = await portOf(server);
  open.push({
    close: () => {
      for (const session of sessions) session.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  });
  return `https://127.0.0.1:${port}`;
};

const ask = async (origin: string, transport: Transport) => {
  const opened = await openTransport(transport, createSecrets(folder));
  open.unshift(opened);
  const request = {
    origin,
    path: "/",
    method: "POST" as const,
    headers: [],
    stream: lastEventOf("control"),
    keepEvents: true,
  };
  return sendRequest(opened.dispatcher, request, clock, TIMEOUTS);
};

describe("calls under way at once", () => {
  test.each([
    ["one a connection over HTTP/1", "https://a.example", { connections: 8 }, 8],
    ["a hundred a connection over HTTP/2", "https://a.example", { connections: 8, protocol: "h2" }, 800],
    ["one a connection where HTTP/2 cannot be agreed upon", "http://a.example", { connections: 8, protocol: "h2" }, 8],
  ] as const)("%s", (_what, base_url, transport, count) => {
    expect(inFlightMax({ base_url, transport })).toBe(count);
  });
});

describe("a target's transport", () => {
  const certificates = { ca: "file:server.pem", cert: "file:client.pem", key: "file:client.key" };

  test("uses its authority and client certificate, in either version of HTTP", async (context) => {
    if (!hasOpenssl) context.skip();
    const origin = await startTls();
    for (const [protocol, version] of [
      ["h1", "1.1"],
      ["h2", "2.0"],
    ] as const) {
      const seen = await ask(origin, { ...certificates, protocol });
      expect(seen).toMatchObject({ status: 200, ended: "done" });
      expect(JSON.parse(seen.seen!.kept[0]!.data)).toEqual({ version });
    }
  });

  test.each(["100 Continue", "102 Processing", "103 Early Hints"])(
    "an unasked %s before the answer is skipped, and the connection is used again",
    async (interim) => {
      const sockets = new Set<unknown>();
      const server = createServer((req, res) => {
        sockets.add(req.socket);
        req.socket.write(`HTTP/1.1 ${interim}\r\n\r\n`);
        res.writeHead(200, { "content-type": "text/event-stream" }).end(writeEvent("done", {}));
      });
      const origin = `http://127.0.0.1:${await portOf(server)}`;
      open.push({ close: () => new Promise((resolve) => server.close(() => resolve())) });
      const opened = await openTransport({ connections: 1 }, createSecrets(folder));
      open.unshift(opened);
      const request = { origin, path: "/", method: "POST" as const, headers: [], stream: lastEventOf("control") };
      for (let call = 0; call < 3; call++) {
        const seen = await sendRequest(opened.dispatcher, request, clock, TIMEOUTS);
        expect(seen).toMatchObject({ status: 200, ended: "done" });
      }
      expect(sockets.size).toBe(1);
    },
  );

  test("a server that nobody vouches for is no answer", async (context) => {
    if (!hasOpenssl) context.skip();
    expect(await ask(await startTls(), {})).toMatchObject({ status: null, error: "DEPTH_ZERO_SELF_SIGNED_CERT" });
  });

  test("goes through a proxy, and takes the proxy's address from a reference", async () => {
    const stub = await startStubApi();
    open.push(stub);
    let tunnels = 0;
    const proxy = createServer();
    proxy.on("connect", (req, socket, head) => {
      tunnels += 1;
      const [host, port] = (req.url ?? "").split(":");
      const upstream = connect(Number(port), host, () => {
        socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
        upstream.write(head);
        socket.pipe(upstream).pipe(socket);
      });
      upstream.on("error", () => socket.destroy());
      socket.on("error", () => upstream.destroy());
    });
    let forwarded = 0;
    proxy.on("request", (_req, res) => {
      forwarded += 1;
      res.end("{}");
    });
    process.env.FLOODGATE_TEST_PROXY = `http://127.0.0.1:${await portOf(proxy)}`;
    open.push({ close: () => new Promise((resolve) => proxy.close(() => resolve())) });
    const { origin } = new URL(stub.url);
    const seen = await ask(origin, { proxy: "env:FLOODGATE_TEST_PROXY" });
    delete process.env.FLOODGATE_TEST_PROXY;
    expect(seen.status).not.toBeNull();
    expect(tunnels + forwarded).toBe(1);
  });
});
