import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CallOptions } from "../start-platform.fixture.ts";
import { type Deployment, type Fixture, FOREIGN, ORIGIN, outcomeOf, startDeployment } from "./api.fixture.ts";

let on: Deployment;
let pro: string;
let key: Fixture;
let downgraded: Fixture;
let exhausted: Fixture;

beforeAll(async () => {
  on = await startDeployment();
  pro = await on.org({ basemap_style_id: "svc-dusk" });
  key = await on.key(pro);
  downgraded = await on.key(await on.org({ tier: "Free" }));
  exhausted = await on.key(await on.org({ tier: "Free", map_load_allowance: 5, map_loads_used: 5 }));
});
afterAll(() => on?.close());

const exchange = (options: Partial<CallOptions> & { product?: unknown }) =>
  on.call({
    method: "POST",
    path: "/sdk/sessions",
    body: { product: options.product ?? "chat" },
    origin: ORIGIN,
    ...options,
  });

/** A call without the allowlisted origin that `exchange` adds. */
const withoutOrigin = (options: Partial<CallOptions>) =>
  on.call({ method: "POST", path: "/sdk/sessions", body: { product: "chat" }, ...options });

describe("a session exchange that succeeds (items 20-39, 64-68)", () => {
  test("answers token, remaining lifetime and product, and nothing else (items 16, 23, 25, 31-33, 64)", async () => {
    const plain = await on.key(await on.org());
    const heard = await exchange({ credential: plain.secret, product: "editor" });
    expect(heard.status).toBe(200);
    expect(Object.keys(heard.json).sort()).toEqual(["expires_in", "product", "session_token"]);
    expect(heard.json.product).toBe("editor");
    expect(heard.json.expires_in).toBe(900);
    expect(heard.json.session_token).toMatch(/^svc_sess_live_[\w-]+\.[\w-]+\.[\w-]+$/);
    expect(heard.headers["cache-control"]).toBe("no-store");
  });

  test("tells the stored basemap style, and only where one is stored (item 34)", async () => {
    expect((await exchange({ credential: key.secret })).json.basemap_style_id).toBe("svc-dusk");
    for (const basemap_style_id of [null, ""]) {
      const bare = await on.key(await on.org({ basemap_style_id }));
      expect((await exchange({ credential: bare.secret })).json).not.toHaveProperty("basemap_style_id");
    }
  });

  test("takes the key in either header, the scheme in any case, and a map_id (item 66)", async () => {
    expect((await exchange({ apiKey: key.secret })).status).toBe(200);
    const lower = await exchange({ headers: { authorization: `bearer ${key.secret}` } });
    expect(lower.status).toBe(200);
    expect((await exchange({ credential: key.secret, body: { product: "chat", map_id: "m-1", more: 1 } })).status).toBe(
      200,
    );
  });

  test("mints a new token each time", async () => {
    const [a, b] = await Promise.all([exchange({ credential: key.secret }), exchange({ credential: key.secret })]);
    expect(a.json.session_token).not.toBe(b.json.session_token);
  });

  test("the viewer is minted for a key that names it, and refused to any other (A7) (items 77, 154)", async () => {
    const named = await on.key(pro, { products: ["viewer"], scopes: [] });
    expect((await exchange({ credential: named.secret, product: "viewer" })).status).toBe(200);
    expect(outcomeOf(await exchange({ credential: key.secret, product: "viewer" }))).toBe("403 product_not_allowed");
  });
});

describe("the first failing check of an exchange decides (items 69-81, B2)", () => {
  const cases: [name: string, call: () => Promise<Parameters<typeof outcomeOf>[0]>, expected: string][] = [
    ["no credential", () => exchange({}), "401"],
    ["garbage", () => exchange({ credential: "garbage" }), "401"],
    ["a well-formed unknown key", () => exchange({ credential: "svc_pk_live_unknown0000000000" }), "401"],
    ["an unknown key and no origin", () => withoutOrigin({ credential: "svc_pk_live_unknown0000000000" }), "401"],
    ["a session token of nobody", () => exchange({ credential: "svc_sess_live_a.b.c" }), "401"],
    [
      "a server key, though it has no origin either (item 70)",
      async () => withoutOrigin({ credential: (await on.serverKey(pro)).secret }),
      "403 publishable_key_required",
    ],
    [
      "a server key from a browser and a foreign address (A4)",
      async () => exchange({ credential: (await on.serverKey(pro, { allowed_ips: ["10.0.0.1"] })).secret }),
      "403 publishable_key_required",
    ],
    [
      "a good session token (A4) (item 199)",
      async () => exchange({ credential: await on.session(key) }),
      "403 publishable_key_required",
    ],
    ["no origin (items 71, 194)", () => withoutOrigin({ credential: key.secret }), "403 origin_required"],
    [
      "no origin, and a product not admitted",
      () => withoutOrigin({ credential: downgraded.secret }),
      "403 origin_required",
    ],
    [
      "a foreign origin (items 43, 72, 195)",
      () => exchange({ credential: key.secret, origin: FOREIGN }),
      "403 session_origin_mismatch",
    ],
    ["the origin null", () => exchange({ credential: key.secret, origin: "null" }), "403 session_origin_mismatch"],
    [
      "a foreign origin, and the allowance used up (item 81)",
      () => exchange({ credential: exhausted.secret, origin: FOREIGN, product: "tile" }),
      "403 session_origin_mismatch",
    ],
    [
      "a foreign origin, and a malformed body",
      () => exchange({ credential: key.secret, origin: FOREIGN, body: "{" }),
      "403 session_origin_mismatch",
    ],
    ["a malformed body", () => exchange({ credential: key.secret, body: "{" }), "422 malformed_body"],
    ["no body", () => exchange({ credential: key.secret, body: "" }), "422 malformed_body"],
    [
      "a body without a product (item 65)",
      () => exchange({ credential: key.secret, body: { map_id: "m-1" } }),
      "422 malformed_body",
    ],
    ["an unknown product", () => exchange({ credential: key.secret, product: "globe" }), "422 malformed_body"],
    [
      "a key without the product's scope (item 76)",
      async () => exchange({ credential: (await on.key(pro, { scopes: ["maps"] })).secret }),
      "403 insufficient_scope",
    ],
    [
      "a key restricted to other products (items 45, 196)",
      async () => exchange({ credential: (await on.key(pro, { products: ["tile"] })).secret }),
      "403 product_not_allowed",
    ],
    [
      "neither scope nor product (B6)",
      async () => exchange({ credential: (await on.key(pro, { products: ["tile"], scopes: ["maps"] })).secret }),
      "403 insufficient_scope",
    ],
    [
      "a downgraded organization (item 193)",
      () => exchange({ credential: downgraded.secret }),
      "403 tier_capability_not_allowed",
    ],
    [
      "an organization without a plan record (item 158)",
      async () => exchange({ credential: (await on.key(await on.org({ tier: null }))).secret, product: "tile" }),
      "403 tier_capability_not_allowed",
    ],
    [
      "a product not admitted, and the allowance used up",
      () => exchange({ credential: exhausted.secret, product: "editor" }),
      "403 tier_capability_not_allowed",
    ],
    [
      "the allowance used up (item 79)",
      () => exchange({ credential: exhausted.secret, product: "tile" }),
      "429 map_load_quota_exceeded",
    ],
  ];
  test.each(cases)("%s", async (_name, call, expected) => {
    expect(outcomeOf(await call())).toBe(expected);
  });

  test("a downgraded organization still mints tile sessions (items 62, 75)", async () => {
    expect((await exchange({ credential: downgraded.secret, product: "tile" })).status).toBe(200);
    for (const product of ["chat", "editor"]) {
      expect(outcomeOf(await exchange({ credential: downgraded.secret, product }))).toBe(
        "403 tier_capability_not_allowed",
      );
    }
  });

  test("revoked and expired keys are 401 without a detail (items 61, 153, 190)", async () => {
    const revoked = await on.key(pro, { status: "revoked" });
    const expired = await on.key(pro, { expires_at: Date.now() - 1 });
    for (const { secret } of [revoked, expired]) {
      const heard = await exchange({ credential: secret });
      expect(heard.status).toBe(401);
      expect(heard.json).toEqual({});
      expect(heard.headers["www-authenticate"]).toBe('Bearer realm="map-inference"');
    }
  });

  test("disabled and unconfigured sessions are refused before the kind of key is looked at (items 161, 162, 200, 201)", async () => {
    const server = await on.serverKey(pro);
    await on.ask("PATCH", "/deployment", { sessions: "disabled" });
    expect(outcomeOf(await exchange({ credential: server.secret }))).toBe("403 sessions_disabled");
    await on.ask("PATCH", "/deployment", { sessions: "not_configured" });
    expect(outcomeOf(await exchange({ credential: server.secret }))).toBe("403 sessions_not_configured");
    expect(outcomeOf(await exchange({ credential: "svc_pk_live_unknown0000000000" }))).toBe("401");
    await on.ask("PATCH", "/deployment", { sessions: "enabled" });
    expect((await exchange({ credential: key.secret })).status).toBe(200);
  });

  test("a refused exchange is told of in FastAPI's manner where the body is at fault (item 203)", async () => {
    const { json } = await exchange({ credential: key.secret, product: 7 });
    expect(json.detail).toBe("malformed_body");
    expect(json.errors[0]).toMatchObject({ loc: ["body", "product"], type: "enum" });
  });
});

describe("test keys (items 51, 54)", () => {
  test("a test key without origins takes loopback origins only, and mints a test session", async () => {
    const { secret } = await on.key(pro, { env: "test", allowed_origins: [] });
    const heard = await exchange({ credential: secret, origin: "http://localhost:5173" });
    expect(heard.json.session_token).toMatch(/^svc_sess_test_/);
    expect(outcomeOf(await exchange({ credential: secret }))).toBe("403 session_origin_mismatch");
  });
});
