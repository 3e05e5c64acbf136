/**
 * Requests as bytes, beyond what `bad-input.test.ts` names one by one: each bad body on each route that has one, every way to
 * write a length, paths and queries that no client library would send, and requests spoilt at random by a seed. Always a
 * defined answer or a closed connection, no 5xx but 503, and no slot kept (issue 4, item 6).
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Deployment, MESSAGES, ORIGIN, startDeployment } from "./api.fixture.ts";

let on: Deployment;
let secret: string;
let publishable: string;
let admin: string;

beforeAll(async () => {
  on = await startDeployment({ listenerLimits: { headTimeoutMs: 1_000, requestTimeoutMs: 1_500 } });
  const org = await on.org({ map_load_allowance: 1_000_000 });
  secret = (await on.serverKey(org)).secret;
  publishable = (await on.key(org)).secret;
  admin = await on.adminToken(org);
});
afterAll(() => on?.close());
afterEach(() => on.quiet());

const head = (method: string, path: string, more = "", credential = secret): string =>
  `${method} /v1${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${credential}\r\n${more}\r\n`;
const withBody = (path: string, body: string | Buffer, credential = secret): Buffer => {
  const origin = credential.startsWith("svc_pk_") ? `Origin: ${ORIGIN}\r\n` : "";
  const lengths = `${origin}Content-Length: ${Buffer.byteLength(body)}\r\n`;
  return Buffer.concat([Buffer.from(head("POST", path, lengths, credential)), Buffer.from(body)]);
};

/** The status of the first answer, "closed" where there was none, "waiting" for one that still waits for bytes. */
const statusOf = async (bytes: string | Buffer, patienceMs = 10_000): Promise<string> => {
  const raw = await on.raw();
  raw.send(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  const patience = new Promise((resolve) => setTimeout(resolve, patienceMs).unref());
  const answered = raw.waitFor(/^HTTP\/1\.1 \d{3} [\s\S]*\r\n\r\n/).catch(() => {});
  await Promise.race([answered, raw.closed().catch(() => {}), patience]);
  const status = /^HTTP\/1\.1 (\d{3})/.exec(raw.heard())?.[1];
  const isOpen = raw.socket.readable && raw.socket.writable;
  raw.socket.destroy();
  return status ?? (isOpen ? "waiting" : "closed");
};

/** By route, who may ask. */
const ROUTES: readonly [path: string, credential: () => string][] = [
  ["/sdk/sessions", () => publishable],
  ["/chat/control/stream", () => secret],
  ["/chat/summary/stream", () => secret],
  ["/chat/button/stream", () => secret],
  ["/chat/control/route", () => secret],
  ["/design/analyze", () => secret],
  ["/design/apply-direct", () => secret],
  ["/maps/loads", () => secret],
  ["/shared-api/api-keys", () => admin],
];

const BODIES: readonly [name: string, body: string | Buffer, status: string][] = [
  ["a lone brace", "}", "422"],
  ["a comma too many", '{"product":"chat",}', "422"],
  ["a comment", "{/**/}", "422"],
  ["invalid UTF-8", Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), "422"],
  ["UTF-16", Buffer.from('{"product":"chat"}', "utf16le"), "422"],
  ["two hundred thousand open levels", `{"a":${"[".repeat(200_000)}`, "422"],
  ["1 MiB and a byte", "x".repeat(1_048_577), "413"],
];

test.each(ROUTES)("every bad body on %s is told as such", async (path, credential) => {
  for (const [name, body, status] of BODIES)
    expect([name, await statusOf(withBody(path, body, credential()))]).toEqual([name, status]);
});

describe("lengths and chunks", () => {
  const chunked = (rest: string): string =>
    head("POST", "/chat/control/stream", "Transfer-Encoding: chunked\r\n") + rest;
  const chunkedWith = (more = ""): string =>
    `${head("POST", "/maps/loads", `Transfer-Encoding: chunked\r\n${more}`)}0\r\n\r\n`;
  const body = JSON.stringify(MESSAGES);
  const cases: [name: string, bytes: () => string, status: RegExp][] = [
    ["a length twice", () => head("POST", "/maps/loads", "Content-Length: 0\r\nContent-Length: 0\r\n"), /400/],
    ["a list of lengths", () => head("POST", "/maps/loads", "Content-Length: 0, 0\r\n"), /400/],
    ["a length with a sign", () => head("POST", "/maps/loads", "Content-Length: +0\r\n"), /400/],
    ["a length in hexadecimal", () => head("POST", "/maps/loads", "Content-Length: 0x0\r\n"), /400/],
    ["a length beyond any", () => head("POST", "/maps/loads", `Content-Length: ${"9".repeat(30)}\r\n`), /400/],
    [
      "a length that no number holds exactly",
      () => head("POST", "/maps/loads", "Content-Length: 9007199254740993\r\n"),
      /413/,
    ],
    ["a length and chunks", () => chunkedWith("Content-Length: 5\r\n"), /400|closed/],
    ["chunks twice", () => chunkedWith("Transfer-Encoding: chunked\r\n"), /400|closed/],
    ["chunks by HTTP/1.0", () => chunkedWith().replace("HTTP/1.1", "HTTP/1.0"), /400/],
    ["another encoding than chunks", () => head("POST", "/maps/loads", "Transfer-Encoding: gzip\r\n"), /400|closed/],
    ["chunks of one byte", () => chunked(`${[...body].map((char) => `1\r\n${char}\r\n`).join("")}0\r\n\r\n`), /200/],
    ["a chunk without a size", () => chunked("zz\r\n"), /400|closed/],
    ["a chunk below zero", () => chunked("-1\r\n"), /400|closed/],
    ["a chunk longer than told", () => chunked("3\r\nabcd\r\n"), /400|closed/],
    ["an extension without an end", () => chunked(`1;${"a".repeat(20_000)}\r\nx\r\n`), /4\d\d|closed/],
    ["a trailer without an end", () => chunked(`0\r\nX: ${"a".repeat(20_000)}\r\n\r\n`), /4\d\d|closed/],
  ];
  test.each(cases)("%s", async (_name, bytes, status) => {
    expect(await statusOf(bytes())).toMatch(status);
  });
});

test("behind HTTP/1.0 with chunks nothing is read: the connection ends, and what was smuggled is not done", async () => {
  const raw = await on.raw();
  const first = head("POST", "/maps/loads", "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n");
  const smuggled = head("GET", "/design/styles", "X-Request-Id: smuggled.x.1\r\n");
  raw.send(`${first.replace("HTTP/1.1", "HTTP/1.0")}2\r\n{}\r\n0\r\n\r\n${smuggled}`);
  await raw.closed();
  expect(raw.heard().match(/HTTP\/1\.1 \d{3}/g)).toEqual(["HTTP/1.1 400"]);
  expect((await on.ask("GET", "/counts?run=smuggled.x")).json).toEqual({});
});

describe("heads", () => {
  const cases: [name: string, bytes: () => string, status: string][] = [
    ["a head just under 16 KiB", () => head("GET", "/design/styles", `X-A: ${"a".repeat(15_800)}\r\n`), "200"],
    ["an address of 20 kB", () => head("GET", `/${"a".repeat(20_000)}`), "431"],
    [
      "two Authorization headers, the first unknown",
      () =>
        `GET /v1/design/styles HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nAuthorization: Bearer ${secret}\r\n\r\n`,
      "401",
    ],
    ["two Host lines", () => head("GET", "/design/styles", "Host: x\r\n"), "400"],
    ["two Host lines of different case and host", () => head("GET", "/design/styles", "hOST: y\r\n"), "400"],
    ["two Host lines, for the router", () => head("GET", "/maps/tiles/0/0/0", "Host: x\r\n"), "400"],
    ["two Host lines where there is nothing", () => head("GET", "/nothing", "Host: x\r\n"), "400"],
    ["a Host with a user", () => head("GET", "/design/styles").replace("Host: x", "Host: a@x"), "400"],
    ["a Host with a path", () => head("GET", "/design/styles").replace("Host: x", "Host: x/y"), "400"],
    ["two hosts in one line", () => head("GET", "/design/styles").replace("Host: x", "Host: x, y"), "400"],
    ["an empty Host", () => head("GET", "/design/styles").replace("Host: x", "Host:"), "200"],
    ["a Host in IPv6", () => head("GET", "/design/styles").replace("Host: x", "Host: [::1]:80"), "200"],
    ["no Host", () => head("GET", "/design/styles").replace("Host: x\r\n", ""), "400"],
    ["a folded line", () => head("GET", "/design/styles", "X-A: b\r\n c\r\n"), "400"],
    ["lines that end in LF alone", () => head("GET", "/design/styles").replaceAll("\r\n", "\n"), "400"],
    ["HTTP/1.0", () => head("GET", "/design/styles").replace("HTTP/1.1", "HTTP/1.0"), "200"],
    ["HTTP/2.0 in the words of HTTP/1", () => head("GET", "/design/styles").replace("HTTP/1.1", "HTTP/2.0"), "400"],
    ["HTTP/0.9", () => "GET /v1/design/styles\r\n\r\n", "400"],
    ["an absolute address", () => head("GET", "/design/styles").replace("/v1", "http://x/v1"), "200"],
    ["a control character", () => head("GET", "/design/styles", "X-A: a\u0001b\r\n"), "400"],
    ["a space before the colon", () => head("GET", "/design/styles", "X-A : a\r\n"), "400"],
    ["names of an object's own", () => head("GET", "/design/styles", "__proto__: x\r\nconstructor: y\r\n"), "200"],
    ["a request id that is one of those", () => head("GET", "/design/styles", "X-Request-Id: __proto__.1\r\n"), "200"],
    ["no scheme", () => "GET /v1/design/styles HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer\r\n\r\n", "401"],
    ["a body where none is read", () => `${head("GET", "/design/styles", "Content-Length: 2\r\n")}{{`, "200"],
    ["HEAD of a catalog", () => head("HEAD", "/design/styles"), "200"],
    ["HEAD of a stream", () => head("HEAD", "/chat/control/stream"), "405"],
    ["TRACE", () => head("TRACE", "/design/styles"), "405"],
    ["CONNECT", () => "CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", "closed"],
    ["OPTIONS of everything", () => "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "404"],
  ];
  test.each(cases)("%s", async (_name, bytes, status) => {
    expect(await statusOf(bytes())).toBe(status);
  });
});

describe("paths and queries", () => {
  const enrich = "/retrieval/poi/enrich?lat=1&lon=2&name=a&category=b";
  test.each([
    ["/maps/tiles/1/0/%00", "422"],
    ["/maps/tiles/1/0/..%2f", "422"],
    ["/maps/tiles/1/0/%25", "422"],
    ["/maps/tiles/1/0/%zz", "404"],
    ["/maps/tiles/1/0/%c0%af", "404"],
    [`/maps/tiles/1/0/${"1".repeat(300)}`, "404"],
    ["/maps/tiles/1/-1/0", "422"],
    ["/maps/tiles/1e308/0/0", "422"],
    ["/design/%2e%2e/design/styles", "404"],
    ["/design/styles;x=1", "404"],
    ["//design/styles", "404"],
    ["/design/styles???&&&===%%%", "200"],
    [`${enrich}&lang=${"x".repeat(15_000)}`, "200"],
    [`${enrich}&${"a=1&".repeat(3_000)}`, "200"],
    [`${enrich}&lat=3`, "422"],
    [`${enrich}&__proto__=1&__proto__=2&toString=1`, "200"],
    ["/retrieval/poi/enrich?lat=NaN&lon=Infinity&name=a&category=b", "422"],
    ["/retrieval/poi/enrich?lat=1e999&lon=2&name=a&category=b", "422"],
    ["/retrieval/poi/enrich?", "422"],
  ])("%s", async (path, status) => {
    expect(await statusOf(head("GET", path))).toBe(status);
  });

  test("a body that never comes is not waited for where there is no such path", async () => {
    const bytes = head("POST", "/nothing", "Content-Type: application/json\r\nContent-Length: 100\r\n");
    expect(await statusOf(bytes)).toBe("404");
  });
});

test("a thousand answers that nobody reads hold nothing once their client has left", async () => {
  const raw = await on.raw();
  raw.socket.pause();
  raw.send(head("GET", "/design/styles").repeat(1_000));
  await new Promise((resolve) => setTimeout(resolve, 100));
  raw.socket.resetAndDestroy();
});

test("six hundred requests spoilt at random: no 5xx but 503", async () => {
  let state = 20_251;
  const draw = (below: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % below;
  };
  const whole = [
    Buffer.from(head("GET", "/design/styles")),
    withBody("/chat/control/stream", JSON.stringify(MESSAGES)),
    withBody("/sdk/sessions", '{"product":"tile"}', publishable),
    Buffer.from(head("DELETE", "/shared-api/api-keys/x", "", admin)),
    Buffer.from(`${head("POST", "/maps/loads", "Transfer-Encoding: chunked\r\n")}2\r\n{}\r\n0\r\n\r\n`),
  ];
  const spoil = (bytes: Buffer): Buffer => {
    const at = draw(bytes.length);
    const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
    const how = draw(4);
    if (how === 0) return Buffer.concat([before, Buffer.from([draw(256)]), after.subarray(1)]);
    if (how === 1) return Buffer.concat([before, Buffer.from([draw(256)]), after]);
    if (how === 2) return Buffer.concat([before, after.subarray(1 + draw(8))]);
    return Buffer.concat([before, bytes.subarray(draw(at + 1), at), after]);
  };
  const sent = Array.from({ length: 600 }, () => {
    let bytes = whole[draw(whole.length)] as Buffer;
    for (let times = 1 + draw(3); times > 0; times -= 1) bytes = spoil(bytes);
    return bytes;
  });
  const broken: string[] = [];
  for (let from = 0; from < sent.length; from += 60) {
    await Promise.all(
      sent.slice(from, from + 60).map(async (bytes) => {
        const status = await statusOf(bytes, 150);
        if (/^5/.test(status) && status !== "503")
          broken.push(`${status}: ${JSON.stringify(bytes.toString("latin1"))}`);
      }),
    );
  }
  expect(broken).toEqual([]);
});
