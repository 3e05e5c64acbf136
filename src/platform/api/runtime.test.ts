import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CallOptions, Heard } from "../start-platform.fixture.ts";
import { type Deployment, type Fixture, FOREIGN, MESSAGES, ORIGIN, outcomeOf, startDeployment } from "./api.fixture.ts";

let on: Deployment;
let pro: string;
let key: Fixture;
let server: Fixture;
let chat: string;
let tile: string;

beforeAll(async () => {
  on = await startDeployment();
  pro = await on.org();
  key = await on.key(pro);
  server = await on.serverKey(pro);
  chat = await on.session(key, "chat");
  tile = await on.session(key, "tile");
});
afterAll(() => on?.close());

const styles = (options: Partial<CallOptions>) => on.call({ path: "/design/styles", ...options });
const route = (options: Partial<CallOptions>) =>
  on.call({
    method: "POST",
    path: "/chat/control/route",
    body: { places: [1, 2], profile: "walking", raw_query: "" },
    ...options,
  });
const oneTile = (options: Partial<CallOptions>) => on.call({ path: "/maps/tiles/3/4/2", ...options });

describe("credentials at runtime (items 22, 40-41, 143-153, 190-199)", () => {
  test("session tokens and server keys work in either header (items 2, 22, 85, 143)", async () => {
    expect((await route({ credential: chat })).status).toBe(200);
    expect((await route({ apiKey: chat })).status).toBe(200);
    expect((await styles({ credential: server.secret })).status).toBe(200);
    expect((await styles({ apiKey: server.secret })).status).toBe(200);
  });

  test("Authorization wins where both came, and the conflict is counted (item 144)", async () => {
    const before = (await on.gauges()).credential_conflicts as number;
    expect(outcomeOf(await styles({ credential: "garbage", apiKey: server.secret }))).toBe("401");
    expect((await styles({ credential: server.secret, apiKey: "garbage" })).status).toBe(200);
    expect((await on.gauges()).credential_conflicts).toBe(before + 2);
    await styles({ credential: server.secret, apiKey: server.secret });
    expect((await on.gauges()).credential_conflicts).toBe(before + 2);
  });

  test("another scheme than Bearer is no credential", async () => {
    expect(outcomeOf(await styles({ headers: { authorization: `Basic ${server.secret}` } }))).toBe("401");
    expect(outcomeOf(await styles({ headers: { authorization: "Bearer" } }))).toBe("401");
    expect(outcomeOf(await styles({ headers: { authorization: "" }, apiKey: server.secret }))).toBe("200");
  });

  test("a 401 without detail has an empty object, the challenge, and no other word (item 153)", async () => {
    const heard = await styles({});
    expect([heard.status, heard.text]).toEqual([401, "{}"]);
    expect(heard.headers["content-type"]).toBe("application/json");
    expect(heard.headers["www-authenticate"]).toBe('Bearer realm="map-inference"');
  });

  test("a credential that is far too long, or not visible ASCII, is refused without a look-up (item 58)", async () => {
    expect(outcomeOf(await styles({ credential: `svc_sk_live_${"x".repeat(400)}` }))).toBe("401");
    expect(outcomeOf(await styles({ apiKey: "svc_sk_live_\u00e9\u00e9\u00e9\u00e9\u00e9" }))).toBe("401");
  });
});

describe("the first failing check of a runtime call decides (B3)", () => {
  const cases: [name: string, call: () => Promise<Heard>, expected: string][] = [
    [
      "a publishable key (items 149, 191)",
      () => styles({ credential: key.secret }),
      "401 publishable_requires_session",
    ],
    [
      "a publishable key with its origin (items 40, 68)",
      () => styles({ apiKey: key.secret, origin: ORIGIN }),
      "401 publishable_requires_session",
    ],
    [
      "a publishable key, and no scope for it",
      async () => styles({ credential: (await on.key(pro, { scopes: [] })).secret }),
      "401 publishable_requires_session",
    ],
    [
      "a server key from a browser (items 41, 145, 197)",
      () => styles({ credential: server.secret, origin: ORIGIN }),
      "403 server_key_in_browser",
    ],
    [
      "a server key from a sandboxed browser (A6)",
      () => styles({ credential: server.secret, origin: "null" }),
      "403 server_key_in_browser",
    ],
    [
      "a server key from a foreign address (items 44, 147, 198)",
      async () => styles({ credential: (await on.serverKey(pro, { allowed_ips: ["10.0.0.0/8"] })).secret }),
      "403 ip_not_allowed",
    ],
    [
      "a server key from a browser at a foreign address (item 148)",
      async () =>
        styles({ credential: (await on.serverKey(pro, { allowed_ips: ["10.0.0.0/8"] })).secret, origin: ORIGIN }),
      "403 server_key_in_browser",
    ],
    [
      "a foreign address, and no scope",
      async () => styles({ credential: (await on.serverKey(pro, { allowed_ips: ["::1"], scopes: [] })).secret }),
      "403 ip_not_allowed",
    ],
    [
      "a session from a foreign origin (item 151)",
      () => route({ credential: chat, origin: FOREIGN }),
      "403 session_origin_mismatch",
    ],
    [
      "a session from a foreign origin, and no scope",
      () => styles({ credential: chat, origin: FOREIGN }),
      "403 session_origin_mismatch",
    ],
    [
      "a tile session from a foreign origin (A12)",
      () => oneTile({ credential: tile, origin: FOREIGN }),
      "429 tile_access_restricted",
    ],
    ["a session of another product (A16)", () => styles({ credential: chat }), "403 insufficient_scope"],
    [
      "a server key without the scope (items 156, 192)",
      async () => styles({ credential: (await on.serverKey(pro, { scopes: ["ai"] })).secret }),
      "403 insufficient_scope",
    ],
    [
      "no scope, and a malformed body",
      () => on.call({ method: "POST", path: "/design/analyze", body: "{", credential: chat }),
      "403 insufficient_scope",
    ],
    [
      "a server key of a downgraded organization (A15)",
      async () => styles({ credential: (await on.serverKey(await on.org({ tier: "Free" }))).secret }),
      "403 tier_capability_not_allowed",
    ],
    [
      "a server key of a downgraded organization, where its scope is still admitted (item 13)",
      async () => oneTile({ credential: (await on.serverKey(await on.org({ tier: "Free" }))).secret }),
      "403 tier_capability_not_allowed",
    ],
    ["a malformed body", () => route({ credential: chat, body: "{" }), "422 malformed_body"],
    ["a token that was tampered with", () => route({ credential: `${chat}x` }), "401"],
  ];
  test.each(cases)("%s", async (_name, call, expected) => {
    expect(outcomeOf(await call())).toBe(expected);
  });

  test("a session without an origin is admitted (item 152)", async () => {
    expect((await route({ credential: chat })).status).toBe(200);
  });

  test("tile_access_restricted is flat, without another field, and says when (items 208, 212, 226)", async () => {
    const heard = await oneTile({ credential: tile, origin: FOREIGN });
    expect(heard.json).toEqual({ error: "tile_access_restricted" });
    expect(heard.headers["retry-after"]).toBe("3600");
    expect(heard.headers["access-control-allow-origin"]).toBeUndefined();
  });

  test("an address inside the allowlist is admitted, alone or as a block (items 44, 55)", async () => {
    for (const block of ["127.0.0.1", "127.0.0.0/8"]) {
      const { secret } = await on.serverKey(pro, { allowed_ips: [block] });
      expect((await styles({ credential: secret })).status).toBe(200);
    }
  });
});

describe("what changes after a session was minted holds at the next call (A14, items 46, 142)", () => {
  const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1_050));

  test("revocation, downgrade and a changed allowlist (item 46)", async () => {
    const org = await on.org();
    const fixture = await on.key(org);
    const session = await on.session(fixture);
    expect((await route({ credential: session, origin: ORIGIN })).status).toBe(200);
    await on.ask("PATCH", `/keys/${fixture.id}`, { allowed_origins: [FOREIGN] });
    await settle();
    expect(outcomeOf(await route({ credential: session, origin: ORIGIN }))).toBe("403 session_origin_mismatch");
    await on.ask("PATCH", `/orgs/${org}`, { tier: "Free" });
    await settle();
    expect(outcomeOf(await route({ credential: session }))).toBe("403 tier_capability_not_allowed");
    await on.ask("PATCH", `/keys/${fixture.id}`, { status: "revoked" });
    await settle();
    expect(outcomeOf(await route({ credential: session }))).toBe("401");
  });

  test("a session past its time is 401 without a detail (item 164)", async () => {
    const session = await on.session(await on.key(await on.org()));
    await on.ask("PATCH", "/deployment", { clock_offset_ms: 899_000 - 60_000 });
    expect((await route({ credential: session })).status).toBe(200);
    await on.ask("PATCH", "/deployment", { clock_offset_ms: 901_000 });
    const heard = await route({ credential: session });
    await on.ask("PATCH", "/deployment", { clock_offset_ms: 0 });
    expect([heard.status, heard.text]).toEqual([401, "{}"]);
  });
});

describe("addresses behind a proxy (item 56)", () => {
  test("X-Forwarded-For counts only from a proxy that we were told to trust", async () => {
    const behind = await startDeployment({ trustedProxies: ["127.0.0.0/8"] });
    try {
      const { secret } = await behind.serverKey(await behind.org(), { allowed_ips: ["203.0.113.7"] });
      const from = (header: Record<string, string>) =>
        behind.call({ path: "/design/styles", credential: secret, headers: header });
      expect((await from({ "x-forwarded-for": "203.0.113.7" })).status).toBe(200);
      expect((await from({ "x-forwarded-for": "198.51.100.1, 203.0.113.7, 127.0.0.1" })).status).toBe(200);
      expect(outcomeOf(await from({ "x-forwarded-for": "203.0.113.7, 198.51.100.1" }))).toBe("403 ip_not_allowed");
      expect(outcomeOf(await from({}))).toBe("403 ip_not_allowed");
    } finally {
      await behind.close();
    }
    const { secret } = await on.serverKey(pro, { allowed_ips: ["203.0.113.7"] });
    const forged = await styles({ credential: secret, headers: { "x-forwarded-for": "203.0.113.7" } });
    expect(outcomeOf(forged)).toBe("403 ip_not_allowed");
  });
});

describe("every route needs its scope (items 4-6, 42, 100, 117, 121, 156, 192)", () => {
  const routes: [scope: "ai" | "design" | "maps", method: string, path: string, body?: unknown][] = [
    ["ai", "POST", "/chat/control/stream", MESSAGES],
    ["ai", "POST", "/chat/summary/stream", { type: "poi" }],
    ["ai", "POST", "/chat/button/stream", {}],
    ["ai", "POST", "/chat/control/route", { places: [1, 2], profile: "walking", raw_query: "" }],
    ["ai", "GET", "/retrieval/poi/enrich?lat=1&lon=2&name=a&category=b"],
    ["design", "POST", "/design/analyze", { dataset: { sample_rows: [] } }],
    ["design", "POST", "/design/apply-direct", {}],
    ["design", "GET", "/design/styles"],
    ["design", "GET", "/design/samples"],
    ["design", "GET", "/design/themes"],
    ["maps", "POST", "/maps/loads"],
    ["maps", "GET", "/maps/tiles/0/0/0"],
  ];
  test.each(routes)("%s: %s %s", async (scope, method, path, body) => {
    const others = (["ai", "design", "maps"] as const).filter((name) => name !== scope);
    const lacking = await on.serverKey(pro, { scopes: others });
    const having = await on.serverKey(pro, { scopes: [scope] });
    expect(outcomeOf(await on.call({ method, path, body, credential: lacking.secret }))).toBe("403 insufficient_scope");
    expect((await on.call({ method, path, body, credential: having.secret })).status).toBe(200);
    expect(outcomeOf(await on.call({ method, path, body }))).toBe("401");
  });
});
