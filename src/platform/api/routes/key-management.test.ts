import { createSigner } from "fast-jwt";
import { Compile } from "typebox/compile";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mintAdminToken } from "../../keys/secret.ts";
import { KeyAnswer } from "../../schemas.ts";
import type { Heard } from "../../start-platform.fixture.ts";
import { type Deployment, ORIGIN, outcomeOf, startDeployment } from "../api.fixture.ts";

const ADMIN_SECRET = "a-secret-of-this-test-and-nobody-else";
let on: Deployment;
let pro: string;
let admin: string;

beforeAll(async () => {
  on = await startDeployment({ adminSecret: ADMIN_SECRET });
  pro = await on.org({ key_limit: 1_000 });
  admin = await on.adminToken(pro);
});
afterAll(() => on?.close());

const create = (body: unknown, credential: string | undefined = admin): Promise<Heard> =>
  on.call({ method: "POST", path: "/shared-api/api-keys", body, credential });
const patch = (id: string, body: unknown, credential: string = admin): Promise<Heard> =>
  on.call({ method: "PATCH", path: `/shared-api/api-keys/${id}`, body, credential });
const remove = (id: string, credential: string = admin): Promise<Heard> =>
  on.call({ method: "DELETE", path: `/shared-api/api-keys/${id}`, credential });

const PUBLISHABLE = { kind: "publishable", scopes: ["ai", "maps"], allowed_origins: [ORIGIN] };

describe("who may manage keys (items 124-127)", () => {
  test("nobody without an admin's token: no credential, garbage, a platform key, an old token, a foreign signature (item 125)", async () => {
    const { secret } = await on.serverKey(pro);
    const old = mintAdminToken({ secret: ADMIN_SECRET, org: pro, nowMs: Date.now(), expiresInS: -1 });
    const forged = mintAdminToken({ secret: "another-secret-of-some-length", org: pro, nowMs: Date.now() });
    const unsigned = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${forged.split(".")[1]}.`;
    const claims = { org_id: pro, role: "org_admin", exp: 9_999_999_999 };
    const elsewhere = createSigner({ key: ADMIN_SECRET, algorithm: "HS256" })({
      ...claims,
      iss: "x",
      aud: "y",
      sub: "z",
    });
    for (const credential of [undefined, "garbage", secret, old, forged, unsigned, elsewhere]) {
      const heard = await on.call({ method: "POST", path: "/shared-api/api-keys", body: PUBLISHABLE, credential });
      expect([heard.status, heard.text]).toEqual([401, "{}"]);
      expect(heard.headers["www-authenticate"]).toBe('Bearer realm="map-inference"');
    }
  });

  test("another role is forbidden", async () => {
    const member = mintAdminToken({ secret: ADMIN_SECRET, org: pro, nowMs: Date.now(), role: "member" });
    const heard = await create(PUBLISHABLE, member);
    expect([heard.status, heard.json]).toEqual([403, { detail: "forbidden" }]);
  });

  test("an admin's token opens no platform route", async () => {
    expect(outcomeOf(await on.call({ path: "/design/styles", credential: admin }))).toBe("401");
  });
});

describe("creating, changing and revoking (items 40-58, 141)", () => {
  test("a new key is told once with its secret, and works (item 124)", async () => {
    const heard = await create({ ...PUBLISHABLE, name: "web" });
    expect(heard.status).toBe(201);
    expect(heard.headers["cache-control"]).toBe("no-store");
    expect(Compile(KeyAnswer).Errors(heard.json)).toEqual([]);
    expect(heard.json.key).toMatch(/^svc_pk_live_/);
    expect(heard.json.last4).toBe(heard.json.key.slice(-4));
    const minted = await on.call({
      method: "POST",
      path: "/sdk/sessions",
      body: { product: "chat" },
      credential: heard.json.key,
      origin: ORIGIN,
    });
    expect(minted.status).toBe(200);
    const changed = await patch(heard.json.id, { scopes: ["maps"], name: "web 2" });
    expect([changed.status, changed.json.scopes, changed.json.name]).toEqual([200, ["maps"], "web 2"]);
    expect(changed.json).not.toHaveProperty("key");
    expect((await create({ kind: "server" })).json.key).toMatch(/^svc_sk_live_/);
  });

  test("a change and a revocation hold at once through the replica that made them", async () => {
    const { json } = await create({ kind: "server", scopes: ["design"] });
    const styles = () => on.call({ path: "/design/styles", credential: json.key });
    expect((await styles()).status).toBe(200);
    await patch(json.id, { scopes: ["ai"] });
    expect(outcomeOf(await styles())).toBe("403 insufficient_scope");
    const gone = await remove(json.id);
    expect([gone.status, gone.text, gone.headers["content-type"]]).toEqual([204, "", undefined]);
    expect(outcomeOf(await styles())).toBe("401");
    expect(outcomeOf(await remove(json.id))).toBe("404 Not Found");
    expect(outcomeOf(await patch(json.id, {}))).toBe("404 Not Found");
  });

  test("a foreign key does not exist for an admin", async () => {
    const other = await on.serverKey(await on.org());
    expect(outcomeOf(await patch(other.id, { name: "mine" }))).toBe("404 Not Found");
    expect(outcomeOf(await remove(other.id))).toBe("404 Not Found");
    expect(outcomeOf(await remove("key_unknown"))).toBe("404 Not Found");
  });
});

describe("what is refused (items 47-49, 129-140, B5)", () => {
  test("bodies that are malformed", async () => {
    for (const body of [
      "{",
      "[]",
      {},
      { kind: "other" },
      { ...PUBLISHABLE, scopes: "ai" },
      { ...PUBLISHABLE, allowed_origins: ["not an origin"] },
      { ...PUBLISHABLE, allowed_origins: ["https://a.example/path"] },
      { kind: "server", allowed_ips: ["10.0.0.0/33"] },
      { kind: "server", allowed_ips: ["example.com"] },
      { ...PUBLISHABLE, expires_at: "tomorrow" },
    ]) {
      expect(outcomeOf(await create(body)), JSON.stringify(body)).toBe("422 malformed_body");
    }
    expect(outcomeOf(await create("x".repeat(1_048_577)))).toBe("413 Payload Too Large");
  });

  const cases: [name: string, body: object, expected: string][] = [
    ["an unknown scope", { ...PUBLISHABLE, scopes: ["ai", "root"] }, "422 unknown_scope"],
    ["an unknown product", { ...PUBLISHABLE, products: ["globe"] }, "422 unknown_product"],
    [
      "a live publishable key without origins (item 49)",
      { kind: "publishable" },
      "422 publishable_live_requires_origins",
    ],
    [
      "vendor without acknowledgement (items 7, 47, 132)",
      { kind: "server", scopes: ["vendor"] },
      "403 vendor_scope_requires_acknowledgement",
    ],
  ];
  test.each(cases)("%s", async (_name, body, expected) => {
    expect(outcomeOf(await create(body))).toBe(expected);
  });

  test("the three words of a 422 at creation, first the scope, then the product, then the origins (item 134)", async () => {
    const words = async (body: object) => outcomeOf(await create({ kind: "publishable", ...body }));
    expect(await words({ scopes: ["root"], products: ["globe"] })).toBe("422 unknown_scope");
    expect(await words({ scopes: ["ai"], products: ["globe"] })).toBe("422 unknown_product");
    expect(await words({ scopes: ["ai"], products: ["chat"] })).toBe("422 publishable_live_requires_origins");
    expect(await words({ scopes: ["ai"], products: ["chat"], allowed_origins: [] })).toBe(
      "422 publishable_live_requires_origins",
    );
  });

  test("vendor with acknowledgement, and a test key without origins, are made", async () => {
    expect((await create({ kind: "server", scopes: ["vendor"], acknowledge_vendor: true })).status).toBe(201);
    expect((await create({ kind: "server", scopes: ["vendor"], vendor_acknowledged: true })).status).toBe(201);
    expect((await create({ kind: "publishable", env: "test" })).json.key).toMatch(/^svc_pk_test_/);
  });

  test("on Free: publishable keys only, and nothing wider than the tier (items 48, 129)", async () => {
    const org = await on.org({ tier: "Free" });
    const free = await on.adminToken(org);
    expect(outcomeOf(await create({ kind: "server", scopes: ["maps"] }, free))).toBe("403 free_plan_publishable_only");
    expect(outcomeOf(await create(PUBLISHABLE, free))).toBe("403 tier_capability_not_allowed");
    const made = await create({ ...PUBLISHABLE, scopes: ["maps"] }, free);
    expect(made.status).toBe(201);
    expect(outcomeOf(await patch(made.json.id, { scopes: ["maps", "ai"] }, free))).toBe(
      "403 tier_capability_not_allowed",
    );
    expect((await patch(made.json.id, { scopes: [] }, free)).status).toBe(200);
  });

  test("a key of a downgraded organization may be narrowed, not widened (items 131, 137)", async () => {
    const org = await on.org();
    const key = await on.key(org, { scopes: ["ai", "maps"], products: ["chat", "tile"] });
    await on.ask("PATCH", `/orgs/${org}`, { tier: "Free" });
    const token = await on.adminToken(org);
    expect((await patch(key.id, { scopes: ["ai"] }, token)).status).toBe(200);
    expect((await patch(key.id, { products: ["chat"] }, token)).status).toBe(200);
    // One scope more, one product more, and no restriction at all.
    for (const wider of [{ scopes: ["ai", "design"] }, { products: ["chat", "editor"] }, { products: [] }]) {
      expect(outcomeOf(await patch(key.id, wider, token))).toBe("403 tier_capability_not_allowed");
    }
  });

  test("the last origin of a live publishable key stays (item 139), vendor by change needs the acknowledgement (138)", async () => {
    const { json } = await create(PUBLISHABLE);
    expect(outcomeOf(await patch(json.id, { allowed_origins: [] }))).toBe("422 publishable_live_requires_origins");
    expect(outcomeOf(await patch(json.id, { scopes: ["vendor"] }))).toBe("403 vendor_scope_requires_acknowledgement");
    expect((await patch(json.id, { scopes: ["vendor"], acknowledge_vendor: true })).status).toBe(200);
    const other = (await create(PUBLISHABLE)).json.id;
    expect(outcomeOf(await patch(other, { scopes: ["vendor"], vendor_acknowledged: false }))).toBe(
      "403 vendor_scope_requires_acknowledgement",
    );
    expect((await patch(other, { scopes: ["vendor"], vendor_acknowledged: true })).status).toBe(200);
  });

  test("an organization without a plan, or unknown, is told plan_required (item 130)", async () => {
    for (const org of [await on.org({ tier: null }), "org_unknown"]) {
      expect(outcomeOf(await create(PUBLISHABLE, await on.adminToken(org)))).toBe("403 plan_required");
    }
  });

  test("the key limit holds however many ask at once, and revoked keys make room (item 133)", async () => {
    const org = await on.org({ key_limit: 3 });
    const token = await on.adminToken(org);
    const heard = await Promise.all(Array.from({ length: 12 }, () => create(PUBLISHABLE, token)));
    expect(heard.filter(({ status }) => status === 201)).toHaveLength(3);
    expect(heard.filter((one) => outcomeOf(one) === "409 key_limit_reached")).toHaveLength(9);
    const id = heard.find(({ status }) => status === 201)?.json.id;
    expect((await remove(id, token)).status).toBe(204);
    expect((await create(PUBLISHABLE, token)).status).toBe(201);
  });
});
