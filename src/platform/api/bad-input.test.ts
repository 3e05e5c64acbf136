/** Whatever comes over the wire: a defined answer or a closed connection, no 5xx but 503, and no slot kept (issue 4, item 6). */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Deployment, MESSAGES, outcomeOf, startDeployment } from "./api.fixture.ts";

let on: Deployment;
let session: string;
let secret: string;

beforeAll(async () => {
  on = await startDeployment({
    globalInFlight: 8,
    orgInFlight: 4,
    listenerLimits: { headTimeoutMs: 1_000, requestTimeoutMs: 1_500 },
  });
  const org = await on.org();
  session = await on.session(await on.key(org));
  secret = (await on.serverKey(org)).secret;
});
afterAll(() => on?.close());
afterEach(() => on.quiet());

const head = (path: string, body: string | Buffer, more = ""): string =>
  `POST /v1${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${session}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${more}\r\n`;

/** Sends bytes, and gives back the status of the first answer, or "closed". */
const statusOf = async (bytes: (string | Buffer)[]): Promise<string> => {
  const raw = await on.raw();
  for (const part of bytes) raw.send(part);
  await Promise.race([raw.waitFor(/^HTTP\/1\.1 \d{3}/), raw.closed()]);
  raw.socket.destroy();
  return /^HTTP\/1\.1 (\d{3})/.exec(raw.heard())?.[1] ?? "closed";
};

describe("bodies", () => {
  const invalidUtf8 = Buffer.concat([
    Buffer.from('{"messages":[{"role":"user","content":"'),
    Buffer.from([0xc3, 0x28, 0xff]),
    Buffer.from('"}]}'),
  ]);
  const cases: [name: string, body: string | Buffer, status: string][] = [
    ["half of an object", '{"messages":', "422"],
    ["a lone brace", "{", "422"],
    ["two documents", "{}{}", "422"],
    ["a byte order mark before JSON", `\ufeff${JSON.stringify(MESSAGES)}`, "422"],
    ["invalid UTF-8", invalidUtf8, "422"],
    ["a lone surrogate, which JSON may write", '{"messages":[{"role":"u","content":"\\ud800"}]}', "200"],
    ["NUL bytes", Buffer.alloc(64), "422"],
    ["a number", "7", "422"],
    ["NaN", "NaN", "422"],
    ["half a million open brackets", "[".repeat(500_000), "422"],
    ["a hundred thousand levels", `${"[".repeat(100_000)}${"]".repeat(100_000)}`, "422"],
    [
      "levels in a member of any type",
      `{"messages":[{"role":"u","content":"x"}],"location":${"[".repeat(50_000)}${"]".repeat(50_000)}}`,
      "200",
    ],
    ["__proto__ as a member", '{"__proto__":{"messages":[{"role":"u","content":"x"}]}}', "422"],
    ["a hundred thousand wrong messages", `{"messages":[${"{},".repeat(99_999)}{}]}`, "422"],
    ["a number beyond any", '{"messages":[{"role":"u","content":"x"}],"map_zoom":1e999}', "200"],
    ["the same member twice", '{"messages":[],"messages":[{"role":"u","content":"x"}]}', "200"],
  ];
  test.each(cases)("%s", async (_name, body, status) => {
    expect(await statusOf([head("/chat/control/stream", body), body])).toBe(status);
  });

  test("any content type, or none, is read as JSON", async () => {
    for (const type of ["text/plain", "application/json; charset=latin1", "nonsense", ";", ""]) {
      const heard = await on.call({
        method: "POST",
        path: "/chat/control/stream",
        body: JSON.stringify(MESSAGES),
        credential: session,
        headers: { "content-type": type },
      });
      expect(heard.status).toBe(200);
    }
  });
});

describe("heads", () => {
  const get = (more: string): string => `GET /v1/design/styles HTTP/1.1\r\nHost: x\r\n${more}\r\n`;
  const cases: [name: string, bytes: () => string, status: string][] = [
    [
      "two Authorization headers: the first counts",
      () => get(`Authorization: Bearer ${secret}\r\nAuthorization: Bearer x\r\n`),
      "200",
    ],
    ["two X-Api-Key headers: neither counts", () => get(`X-Api-Key: ${secret}\r\nX-Api-Key: ${secret}\r\n`), "401"],
    [
      "two origins: an origin that nobody lists",
      () => get(`Authorization: Bearer ${secret}\r\nOrigin: a\r\nOrigin: b\r\n`),
      "403",
    ],
    ["both credentials: Authorization counts", () => get(`Authorization: Bearer ${secret}\r\nX-Api-Key: x\r\n`), "200"],
    ["two request ids", () => get(`Authorization: Bearer ${secret}\r\nX-Request-Id: a\r\nX-Request-Id: b\r\n`), "200"],
    ["two lengths that differ", () => get("Content-Length: 1\r\nContent-Length: 2\r\n"), "400"],
    ["a length and chunks", () => get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), "400"],
    ["a length below zero", () => get("Content-Length: -1\r\n"), "400"],
    ["no Host", () => "GET /v1/design/styles HTTP/1.1\r\n\r\n", "400"],
    ["an unknown method", () => "BREW /v1/design/styles HTTP/1.1\r\nHost: x\r\n\r\n", "400"],
    ["a line break inside a header", () => get("X-A: a\r\n b\r\nAuthorization: x\r\n"), "400"],
    ["bytes that are no HTTP", () => "\u0000\u0001\u0002\r\n\r\n", "400"],
    ["a TLS hello", () => "\u0016\u0003\u0001\u0002\u0000\u0001", "400"],
    ["HTTP/3.0", () => "GET / HTTP/3.0\r\n\r\n", "400"],
    ["an expectation that nobody can meet", () => get(`Authorization: Bearer ${secret}\r\nExpect: wonders\r\n`), "417"],
    [
      "an upgrade that nobody offers",
      () => get(`Authorization: Bearer ${secret}\r\nConnection: upgrade\r\nUpgrade: h2c\r\n`),
      "200",
    ],
    ["a path with NUL", () => "GET /v1/design/styles%00 HTTP/1.1\r\nHost: x\r\n\r\n", "404"],
    ["a path that climbs", () => "GET /v1/../v1/design/styles HTTP/1.1\r\nHost: x\r\n\r\n", "404"],
    [
      "an absolute address",
      () => `GET http://x/v1/design/styles HTTP/1.1\r\nHost: x\r\nX-Api-Key: ${secret}\r\n\r\n`,
      "200",
    ],
  ];
  test.each(cases)("%s", async (_name, bytes, status) => {
    const got = await statusOf([bytes()]);
    expect(got).toBe(status);
    expect(Number(got)).toBeLessThan(500);
  });

  test("Expect: 100-continue is continued, and the body read", async () => {
    const body = JSON.stringify(MESSAGES);
    const raw = await on.raw();
    raw.send(head("/chat/control/stream", body, "Expect: 100-continue\r\n"));
    await raw.waitFor("HTTP/1.1 100 Continue");
    raw.send(body);
    await raw.waitFor("event: done");
    raw.socket.destroy();
  });
});

describe("time and order", () => {
  test("a head that trickles is ended with 408, and holds no slot", async () => {
    const raw = await on.raw();
    raw.send("GET /v1/design/styles HTTP/1.1\r\nHost: x\r\nX-A: ");
    expect((await on.gauges()).in_flight).toBe(0);
    await raw.closed();
    expect(raw.heard()).toMatch(/^(HTTP\/1\.1 408|$)/);
  });

  test("a body that trickles is ended, and its slots come back", async () => {
    const raw = await on.raw();
    raw.send(head("/chat/control/stream", "x".repeat(1_000)));
    raw.send('{"messages":');
    await raw.closed();
    await on.quiet();
  });

  test("pipelined requests are answered in their order", async () => {
    const raw = await on.raw();
    const get = (path: string, id: number) =>
      `GET /v1${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret}\r\nX-Request-Id: id-${id}\r\n\r\n`;
    raw.send(get("/design/styles", 1) + get("/nothing", 2) + get("/design/themes", 3) + get("/sdk/sessions", 4));
    const heard = await raw.waitFor("id-4");
    expect([...heard.matchAll(/X-Request-Id: id-(\d)/g)].map(([, id]) => id)).toEqual(["1", "2", "3", "4"]);
    expect([...heard.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status)).toEqual([
      "200",
      "404",
      "200",
      "405",
    ]);
    raw.socket.destroy();
  });

  test("garbage behind a good request closes the connection and does not spoil its answer", async () => {
    const raw = await on.raw();
    const body = JSON.stringify(MESSAGES);
    raw.send(`${head("/chat/control/stream", body)}${body}\u0000\u0001garbage\r\n\r\n`);
    await raw.closed();
    expect(raw.heard()).not.toContain("HTTP/1.1 400");
  });

  test("pipelined calls whose client leaves are all ended", async () => {
    const raw = await on.raw();
    const body = JSON.stringify(MESSAGES);
    const one = head("/chat/control/stream", body) + body;
    raw.send(one.repeat(4));
    await raw.waitFor("event: token");
    raw.socket.destroy();
    await on.quiet();
  });

  test("a client that closes its half after asking is closed, and holds nothing", async () => {
    const raw = await on.raw();
    const body = JSON.stringify(MESSAGES);
    raw.socket.end(head("/chat/control/stream", body) + body);
    await raw.closed();
  });

  test("connections that say nothing, or leave in the middle of a head, cost nothing", async () => {
    const all = await Promise.all(Array.from({ length: 50 }, () => on.raw()));
    for (const [i, raw] of all.entries()) {
      if (i % 2 === 0) raw.send("POST /v1/sdk/sessions HT");
      raw.socket.destroy();
    }
    expect(outcomeOf(await on.call({ path: "/design/styles", credential: secret }))).toBe("200");
  });
});
