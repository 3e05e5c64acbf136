import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { afterEach, describe, expect, test } from "vitest";
import { HEALTHY } from "./parts.ts";
import { until } from "./start-platform.fixture.ts";
import { type Role, type RoleOptions, RoleOptionsError, type Running, startRole } from "./start-role.ts";

const SECRETS = { sessionSecret: "session-secret-for-this-test-only", adminSecret: "admin-secret-for-this-test-only" };
const running: Running[] = [];
/** Of control planes, by their origin. */
const tokens = new Map<string, string>();
const start = async (role: Role, options: RoleOptions): Promise<Running> => {
  const one = await startRole(role, { logLevel: "silent", controlPort: 0, stopDeadlineMs: 2_000, ...options });
  running.push(one);
  tokens.set(new URL(one.urls.control?.[role === "all" ? "api" : role] ?? "none:").origin, one.controlToken as string);
  return one;
};
afterEach(async () => {
  for (const one of running.splice(0).reverse()) await one.close();
});

const send = async (method: string, url: string, body?: unknown, headers: Record<string, string> = {}) => {
  const answer = await request(url, {
    method: method as "GET",
    headers: {
      ...(tokens.has(new URL(url).origin) ? { authorization: `Bearer ${tokens.get(new URL(url).origin)}` } : {}),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.body.text();
  return { status: answer.statusCode, text, json: text.startsWith("{") ? JSON.parse(text) : undefined };
};

describe("roles", () => {
  test("in one process: three addresses, one control plane", async () => {
    const { urls } = await start("all", {});
    expect(new Set([urls.api, urls.keys, urls.limiter]).size).toBe(3);
    expect(urls.api).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
    expect(new Set(Object.values(urls.control ?? {})).size).toBe(1);
    expect(JSON.parse(JSON.stringify(urls))).toEqual(urls);
  });

  test("without a control port there is no control plane", async () => {
    const one = await startRole("all", { logLevel: "silent" });
    running.push(one);
    expect(one.urls.control).toBeUndefined();
  });

  test("apart: two replicas share keys, meters and sessions, and keep a quota exact", async () => {
    const limiter = await start("limiter", {});
    const keys = await start("keys", { ...SECRETS, limiter: limiter.urls.limiter as string });
    const links = { keys: keys.urls.keys as string, limiter: limiter.urls.limiter as string };
    const caps = { globalInFlight: 500, orgInFlight: 500, rateLimit: null };
    const [one, two] = [
      await start("api", { ...SECRETS, ...links, ...caps }),
      await start("api", { ...SECRETS, ...links, ...caps }),
    ];
    expect(Object.keys(one.urls)).toEqual(["api", "control"]);
    const control = keys.urls.control?.keys as string;
    const { id } = (await send("POST", `${control}/orgs`, { tier: "Free", map_load_allowance: 30 })).json;
    const key = { org_id: id, kind: "publishable", scopes: ["maps"], allowed_origins: ["https://app.example"] };
    const secret = (await send("POST", `${control}/keys`, key)).json.key;
    const headers = { authorization: `Bearer ${secret}`, origin: "https://app.example" };
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        send("POST", `${(i % 2 === 0 ? one : two).urls.api}/sdk/sessions`, { product: "tile" }, headers),
      ),
    );
    const minted = answers.filter(({ status }) => status === 200);
    expect(minted).toHaveLength(30);
    expect(answers.filter(({ json }) => json?.error === "map_load_quota_exceeded")).toHaveLength(70);
    expect((await send("GET", `${control}/orgs/${id}`)).json.map_loads_used).toBe(30);
    // A token minted by one replica opens the other.
    const token = (minted[0] as { json: { session_token: string } }).json.session_token;
    const tile = await send("GET", `${two.urls.api}/maps/tiles/0/0/0`, undefined, { "x-api-key": token });
    expect(tile.status).toBe(200);
  });

  test("keys and meters on disk are there again after a restart", async () => {
    const folder = mkdtempSync(join(tmpdir(), "floodgate-role-"));
    const stores = {
      ...SECRETS,
      keys: `sqlite:${join(folder, "keys.db")}`,
      limiter: `sqlite:${join(folder, "limiter.db")}`,
    };
    try {
      const first = await start("all", stores);
      const control = first.urls.control?.keys as string;
      const { id } = (await send("POST", `${control}/orgs`, { tier: "Pro" })).json;
      const secret = (await send("POST", `${control}/keys`, { org_id: id, kind: "server", scopes: ["maps"] })).json.key;
      const headers = { authorization: `Bearer ${secret}` };
      expect((await send("POST", `${first.urls.api}/maps/loads`, undefined, headers)).json.used).toBe(1);
      await first.close();
      const second = await start("all", stores);
      expect((await send("POST", `${second.urls.api}/maps/loads`, undefined, headers)).json.used).toBe(2);
      await second.close();
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe("options that cannot be", () => {
  test.each([
    [
      "an API without a session secret",
      "api",
      { keys: "http://127.0.0.1:1", limiter: "http://127.0.0.1:1" },
      /FLOODGATE_ADMIN_SECRET|FLOODGATE_SESSION_SECRET/,
    ],
    ["an API with a store of its own", "api", { ...SECRETS, keys: "memory" }, /expected --keys http/],
    ["a store that nobody knows", "all", { keys: "postgres://x" }, /expected --keys sqlite:PATH or memory/],
    [
      "a session longer than the specification's maximum (items 24, 224)",
      "all",
      { sessionLifetimeS: 1_801 },
      /1 to 1800 seconds/,
    ],
    ["a trusted proxy that is no address", "all", { trustedProxies: ["10.0.0.1", "proxy"] }, /CIDR block, got "proxy"/],
    [
      "a folder that is not there",
      "all",
      { keys: "sqlite:/nowhere/keys.db" },
      /\/nowhere\/keys.db to be an SQLite file/,
    ],
    ["a file that is something else", "all", { limiter: `sqlite:${import.meta.filename}` }, /not a database/],
    ["a path that is missing", "all", { limiter: "sqlite:" }, /expected --limiter sqlite:PATH/],
    [
      "a control plane for everybody without a token",
      "all",
      { controlPort: 0, controlHost: "0.0.0.0" },
      /--control-host 0\.0\.0\.0 is not loopback: expected FLOODGATE_CONTROL_TOKEN/,
    ],
    [
      "the address of a control plane without its port",
      "all",
      { controlHost: "::" },
      /--control-host :: needs --control-port/,
    ],
    ["a token that can be guessed", "all", { controlPort: 0, controlToken: "secret" }, /16 or more visible ASCII/],
    ["a token that no header can carry", "all", { controlToken: "a token with blanks" }, /16 or more visible ASCII/],
  ] as [string, Role, RoleOptions, RegExp][])(
    "%s is refused in a sentence, and nothing is left listening",
    async (_name, role, options, message) => {
      await expect(startRole(role, { logLevel: "silent", ...options })).rejects.toThrow(RoleOptionsError);
      await expect(startRole(role, { logLevel: "silent", ...options })).rejects.toThrow(message);
    },
  );
});

describe("a graceful stop", () => {
  const deployment = async (options: RoleOptions = {}) => {
    const one = await start("all", { inference: { serviceMs: 400, tokens: 4 }, ...options });
    const control = one.urls.control?.keys as string;
    const { id } = (await send("POST", `${control}/orgs`, { tier: "Pro" })).json;
    const secret = (await send("POST", `${control}/keys`, { org_id: id, kind: "server", scopes: ["ai"] })).json.key;
    const stream = () => send("POST", `${one.urls.api}/chat/button/stream`, {}, { authorization: `Bearer ${secret}` });
    return { one, stream };
  };

  test("lets running streams finish, then refuses connections", async () => {
    const { one, stream } = await deployment();
    const heard = stream();
    await until("the stream to run", () => one.gauges()?.open_streams === 1);
    const closed = one.close();
    expect((await heard).text).toContain("event: end");
    await closed;
    await expect(stream()).rejects.toThrow();
  });

  test("ends what is left at the deadline with an error event", async () => {
    const { one, stream } = await deployment({ stopDeadlineMs: 150, inference: { serviceMs: 60_000, tokens: 4 } });
    const heard = stream();
    await until("the stream to run", () => one.gauges()?.open_streams === 1);
    await one.close();
    expect((await heard).text).toContain("event: error");
  });

  test("closing twice is closing once", async () => {
    const { one } = await deployment();
    await Promise.all([one.close(), one.close()]);
    await one.close();
  });
});

describe("parts", () => {
  test("a behaviour wrapped from outside is the one that is used", async () => {
    const parts = {
      ...HEALTHY,
      sessionClaims: (mint: Parameters<typeof HEALTHY.sessionClaims>[0]) => HEALTHY.sessionClaims(mint, 3_600),
    };
    const one = await startRole("all", { logLevel: "silent", controlPort: 0 }, parts);
    running.push(one);
    const control = one.urls.control?.keys as string;
    tokens.set(new URL(control).origin, one.controlToken as string);
    const { id } = (await send("POST", `${control}/orgs`, { tier: "Pro" })).json;
    const key = { org_id: id, kind: "publishable", scopes: ["ai"], allowed_origins: ["https://app.example"] };
    const secret = (await send("POST", `${control}/keys`, key)).json.key;
    const headers = { authorization: `Bearer ${secret}`, origin: "https://app.example" };
    const minted = await send("POST", `${one.urls.api}/sdk/sessions`, { product: "chat" }, headers);
    expect(minted.json.expires_in).toBe(3_600);
  });
});
