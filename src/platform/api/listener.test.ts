import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Deployment, type Fixture, FOREIGN, MESSAGES, ORIGIN, outcomeOf, startDeployment } from "./api.fixture.ts";

let on: Deployment;
let key: Fixture;
let server: Fixture;
let session: string;

beforeAll(async () => {
  on = await startDeployment();
  const org = await on.org();
  key = await on.key(org);
  server = await on.serverKey(org);
  session = await on.session(key);
});
afterAll(() => on?.close());

describe("paths and methods (items 1, 18)", () => {
  test.each([
    "/",
    "/nothing",
    "/sdk",
    "/sdk/sessions/",
    "/design/styles/x",
    "/SDK/sessions",
    "/shared-api/api-keys/a/b",
  ])("%s is 404 in the detail envelope", async (path) => {
    for (const method of ["GET", "POST", "OPTIONS"]) {
      const heard = await on.call({ method, path });
      expect([heard.status, heard.json]).toEqual([404, { detail: "Not Found" }]);
    }
  });

  test("nothing is served beside the version segment but the description of the API (item 1)", async () => {
    const { origin: url, pathname } = new URL(on.api);
    expect(pathname).toBe("/v1");
    expect((await fetch(`${url}/v1/design/styles`)).status).toBe(401);
    expect((await fetch(`${url}/v2/design/styles`)).status).toBe(404);
    expect((await fetch(`${url}/openapi.json`)).status).toBe(200);
    expect((await fetch(`${url}/design/styles`)).status).toBe(404);
    expect((await fetch(`${url}/counts`)).status).toBe(404);
    expect((await fetch(`${on.api}/counts`)).status).toBe(404);
    expect((await fetch(`${url}/%zz`)).status).toBe(404);
  });

  test.each([
    ["DELETE", "/design/styles", "GET, HEAD, OPTIONS"],
    ["GET", "/sdk/sessions", "POST, OPTIONS"],
    ["HEAD", "/sdk/sessions", "POST, OPTIONS"],
    ["PUT", "/shared-api/api-keys", "POST, OPTIONS"],
    ["POST", "/shared-api/api-keys/key_1", "PATCH, DELETE, OPTIONS"],
    ["PATCH", "/maps/tiles/1/0/0", "GET, HEAD, OPTIONS"],
    ["PROPFIND", "/design/styles", "GET, HEAD, OPTIONS"],
  ])("%s %s is 405 and says what is allowed", async (method, path, allow) => {
    const heard = await on.call({ method, path });
    expect([heard.status, heard.headers.allow]).toEqual([405, allow]);
    if (method !== "HEAD") expect(heard.json).toEqual({ detail: "Method Not Allowed" });
  });

  test("a body on an unknown path, of any kind and size, changes nothing", async () => {
    for (const headers of [{ "content-type": "nonsense" }, { "content-type": "application/json" }]) {
      const heard = await on.call({ method: "POST", path: "/nothing", body: "x".repeat(2_000_000), headers });
      expect(outcomeOf(heard)).toBe("404 Not Found");
    }
  });
});

describe("request ids (item 19)", () => {
  test("one that was given is echoed, on answers, refusals and streams", async () => {
    const headers = { "x-request-id": "run.stage.17" };
    for (const options of [
      { path: "/design/styles", credential: server.secret },
      { path: "/design/styles" },
      { path: "/nothing" },
      { method: "POST", path: "/chat/control/stream", body: MESSAGES, credential: session },
    ]) {
      expect((await on.call({ ...options, headers })).headers["x-request-id"]).toBe("run.stage.17");
    }
  });

  test("a missing one is made up, an unfit one replaced, each time anew", async () => {
    const seen = new Set<unknown>();
    for (const id of [undefined, "", "with space", "a,b", "x".repeat(300)]) {
      const heard = await on.call({ path: "/design/styles", headers: id === undefined ? {} : { "x-request-id": id } });
      seen.add(heard.headers["x-request-id"]);
      expect(heard.headers["x-request-id"]).toMatch(/^[\w-]{22}-[0-9a-z]+$/);
    }
    expect(seen.size).toBe(5);
  });
});

describe("CORS (items 146, 159-160; A21)", () => {
  const allowed = "access-control-allow-origin";

  test("a preflight succeeds for any origin, with methods and headers echoed, without credentials", async () => {
    const heard = await on.call({
      method: "OPTIONS",
      path: "/chat/control/stream",
      origin: FOREIGN,
      headers: {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
      },
    });
    expect([heard.status, heard.text]).toEqual([204, ""]);
    expect(heard.headers[allowed]).toBe(FOREIGN);
    expect(heard.headers["access-control-allow-methods"]).toBe("POST, OPTIONS");
    expect(heard.headers["access-control-allow-headers"]).toBe("authorization,content-type");
    expect(heard.headers.vary).toContain("Origin");
  });

  test("a real answer names the origin if and only if the key lists it (items 146, 159)", async () => {
    const post = (origin: string, credential: string, path = "/chat/control/stream") =>
      on.call({ method: "POST", path, body: MESSAGES, credential, origin });
    const listed = await post(ORIGIN, session);
    expect(listed.headers[allowed]).toBe(ORIGIN);
    expect(listed.headers["access-control-expose-headers"]).toBe("Retry-After, X-Request-Id");
    expect(listed.headers.vary).toBe("Origin");
    // Also where the answer is a refusal: the browser may read it.
    expect((await post(ORIGIN, session, "/design/apply-direct")).headers[allowed]).toBe(ORIGIN);
    const foreign = await post(FOREIGN, session);
    expect([foreign.status, foreign.headers[allowed], foreign.headers.vary]).toEqual([403, undefined, "Origin"]);
    expect((await post(ORIGIN, server.secret)).headers[allowed]).toBeUndefined();
    // A server key is blocked whatever its record lists (item 146).
    const lists = await on.serverKey(await on.org(), { allowed_origins: [ORIGIN] });
    const blocked = await post(ORIGIN, lists.secret);
    expect([outcomeOf(blocked), blocked.headers[allowed]]).toEqual(["403 server_key_in_browser", undefined]);
    expect((await post(ORIGIN, "garbage")).headers[allowed]).toBeUndefined();
  });
});

describe("sizes (item 232)", () => {
  const chat = (body: string) => on.call({ method: "POST", path: "/chat/control/stream", body, credential: session });
  const ofBytes = (bytes: number): string => {
    const frame = JSON.stringify({ ...MESSAGES, pad: "" });
    return JSON.stringify({ ...MESSAGES, pad: "x".repeat(bytes - frame.length) });
  };

  test("a body of 1 MiB is read, one byte more is 413, whether its length is told or not", async () => {
    expect((await chat(ofBytes(1_048_576))).status).toBe(200);
    expect(outcomeOf(await chat(ofBytes(1_048_577)))).toBe("413 Payload Too Large");
    const raw = await on.raw();
    raw.send(
      `POST /v1/chat/control/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${session}\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    const piece = "x".repeat(65_536);
    for (let i = 0; i < 17; i += 1) raw.send(`10000\r\n${piece}\r\n`);
    await raw.waitFor("HTTP/1.1 413");
    raw.send("0\r\n\r\nGET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n");
    await raw.waitFor("HTTP/1.1 404");
    raw.socket.destroy();
    await on.quiet();
  });

  test("a head of more than 16 KiB is 431", async () => {
    const raw = await on.raw();
    raw.send(`GET /v1/design/styles HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(17_000)}\r\n\r\n`);
    await raw.waitFor("HTTP/1.1 431");
    await raw.closed();
  });
});

describe("the API's description", () => {
  test("errors of ours never show Fastify's own envelope", async () => {
    for (const heard of [
      await on.call({ path: "/nothing" }),
      await on.call({ method: "POST", path: "/nothing", body: "{", headers: { "content-type": "application/json" } }),
      await on.call({ method: "POST", path: "/sdk/sessions", body: "{", credential: key.secret, origin: ORIGIN }),
    ]) {
      expect(heard.json).not.toHaveProperty("statusCode");
      expect(heard.json).not.toHaveProperty("message");
    }
  });
});
