/** `doctor --target` on the reference platform and on a stub: right roles, wrong roles, and what it costs. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../../client/stub-api.fixture.ts";
import type { KeyRole } from "../../target/roles.ts";
import type { Target } from "../../target/target.ts";
import { type Reference, startReference } from "../reference.fixture.ts";
import { diagnoseTarget } from "./diagnose-target.ts";
import { type Finding, worstOf } from "./finding.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-doctor-"));
afterAll(() => rmSync(folder, { recursive: true }));

type TargetDiagnosis = Awaited<ReturnType<typeof diagnoseTarget>>;

const diagnose = async (target: unknown, owned: string[] = []): Promise<TargetDiagnosis> => {
  const file = join(folder, "target.json");
  writeFileSync(file, JSON.stringify(target));
  return await diagnoseTarget(file, owned);
};

const section = ({ sections }: TargetDiagnosis, title: string): readonly Finding[] =>
  sections.find((one) => one.title === title)?.findings ?? [];
const named = (diagnosis: TargetDiagnosis, name: string): Finding | undefined =>
  diagnosis.sections.flatMap(({ findings }) => findings).find((one) => one.name === name);

describe("doctor on the reference platform", () => {
  let reference: Reference;
  beforeAll(async () => {
    reference = await startReference();
  });
  afterAll(() => reference.close());

  test("every role works as it should, for at most 60 calls and no map load", async () => {
    const diagnosis = await diagnose(reference.target);
    expect(section(diagnosis, "Roles").filter(({ state }) => state !== "ok")).toEqual([]);
    expect(section(diagnosis, "Connection").filter(({ state }) => state !== "ok")).toEqual([]);
    expect(section(diagnosis, "Roles")).toHaveLength(22);
    expect(worstOf(diagnosis.sections)).toBeNull();
    expect(diagnosis.spent).toMatchObject({ map_loads: 0, analyses: 0 });
    expect(diagnosis.spent.requests).toBeLessThanOrEqual(60);
    expect(diagnosis.spent.requests).toBeGreaterThan(30);
    expect(named(diagnosis, "clock")?.state).toBe("ok");
    expect(named(diagnosis, "X-Request-Id")?.text).toBe("is echoed");
  });

  // Role, the role whose key stands there instead, and what must be said of it.
  test.each<[KeyRole, KeyRole, RegExp]>([
    ["publishable", "publishable_no_ai", /expected 200 and a chat session; got 403 insufficient_scope/],
    ["publishable", "revoked", /got 401/],
    ["publishable_other_org", "publishable_downgraded", /got 403 tier_capability_not_allowed/],
    ["server", "server_no_design", /expected 200 and the style catalog; got 403 insufficient_scope/],
    ["server", "server_foreign_ip", /got 403 ip_not_allowed/],
    ["server_foreign_ip", "server", /expected 403 ip_not_allowed; got 200/],
    ["server_no_design", "server", /expected 403 insufficient_scope; got 200/],
    ["server_downgraded", "server", /expected 403 tier_capability_not_allowed or .*; got 200/],
    ["publishable_no_ai", "publishable", /expected 403 insufficient_scope; got 200/],
    ["publishable_tile_only", "publishable", /expected 403 product_not_allowed or .*; got 200/],
    ["publishable_downgraded", "publishable", /got 200/],
    ["publishable_expendable", "publishable_expendable_paid", /got 200/],
    ["publishable_expendable_paid", "publishable_expendable", /got 403 tier_capability_not_allowed/],
    ["publishable_basemap", "publishable", /expected basemap_style_id svc-dusk; got none/],
    ["revoked", "publishable", /expected 401; got 200/],
    ["expired", "publishable", /expected 401; got 200/],
  ])("%s with the key of %s is wrong, and says what to do", async (role, other, message) => {
    const { credentials = {}, ...rest } = reference.target;
    const one = { ...credentials[role], key: credentials[other]?.key, origin: credentials[other]?.origin };
    const diagnosis = await diagnose({ ...rest, credentials: { [role]: one } });
    const found = named(diagnosis, role);
    expect([found?.state, found?.text]).toEqual(["wrong", expect.stringMatching(message)]);
    expect(found?.todo).toMatch(/\w/);
    expect(worstOf(diagnosis.sections)).toBe("wrong");
    expect(JSON.stringify(diagnosis)).not.toContain(one.key);
  });

  test("a foreign origin is named beside the place where it stands", async () => {
    const key = reference.target.credentials?.publishable?.key as string;
    const credentials = { publishable: { key, origin: "https://wrong.example" } };
    const found = named(await diagnose({ ...reference.target, credentials }), "publishable");
    expect(found?.text).toContain("403 session_origin_mismatch");
    expect(found?.todo).toContain("credentials.publishable.origin (the file says https://wrong.example)");
    const without = await diagnose({ ...reference.target, credentials: { publishable: { key } } });
    expect(named(without, "publishable")?.text).toContain("expected an origin at credentials.publishable.origin");
  });

  test("a used-up allowance is tried only where that cannot charge, or is permitted", async () => {
    const { credentials = {}, control: _control, ...rest } = reference.target;
    const careful = { ...rest, permits: { quota_burn: false } };
    const skipped = await diagnose({
      ...careful,
      credentials: { publishable_exhausted: credentials.publishable_exhausted },
    });
    expect(named(skipped, "publishable_exhausted, quota")).toMatchObject({ state: "skipped" });
    expect(skipped.spent.map_loads).toBe(0);
    // Nothing is used of this one: with the permit the mistake costs a map load, and the report says so.
    const wrong = { ...credentials.publishable_expendable };
    const burnt = await diagnose({
      ...rest,
      permits: { quota_burn: true },
      credentials: { publishable_exhausted: wrong },
    });
    expect(named(burnt, "publishable_exhausted, quota")?.text).toContain("one map load was charged");
    expect(burnt.spent.map_loads).toBe(1);
  });

  test("a token that nobody signed is wrong, and without permits.writes nothing that could write is sent", async () => {
    const bad = { admin_pro: { token: "eyJhbGciOiJIUzI1NiJ9.eyJvcmciOiJhIn0.c2lnbmF0dXJl" } };
    const found = await diagnose({ ...reference.target, credentials: bad });
    expect(named(found, "admin_pro")).toMatchObject({ state: "wrong", text: expect.stringContaining("got 401") });
    expect(JSON.stringify(found)).not.toContain("c2lnbmF0dXJl");
    const careful = await diagnose({ ...reference.target, permits: { writes: false } });
    expect(named(careful, "admin_pro")?.state).toBe("skipped");
  });

  test("base_url without its version segment is wrong, and the right one is named", async () => {
    const diagnosis = await diagnose({ ...reference.target, base_url: reference.target.base_url.replace(/\/v1$/, "") });
    const found = named(diagnosis, "base_url");
    expect([found?.state, found?.todo]).toEqual(["wrong", expect.stringContaining(`"${reference.target.base_url}"`)]);
    expect(named(diagnosis, "roles")?.state).toBe("skipped");
  });

  test("says what would be judged, and what a permit forbids", async () => {
    const diagnosis = await diagnose({ ...reference.target, permits: { writes: false, load_max_rps: 10 } });
    expect(named(diagnosis, "verify")?.text).toMatch(/judges up to \d+ of \d+ rules/);
    expect(named(diagnosis, "--allow-writes")?.text).toContain("permits.writes of the target file does not allow it");
    expect(named(diagnosis, "smoke")?.text).toContain("at most 9/s");
    expect(named(diagnosis, "smoke")?.text).toContain("permits.load_max_rps (10)");
    expect(named(diagnosis, "chaos")?.state).toBe("skipped");
    expect(named(diagnosis, "scale")).toBeUndefined();
    const scale = { set: ["false {replicas}"], ready: "false {replicas}" };
    const scaled = await diagnose({ ...reference.target, scale, permits: { chaos: true } });
    expect([named(scaled, "scale")?.state, named(scaled, "commands")?.state]).toEqual(["ok", "skipped"]);
    const refused = await diagnose({ ...reference.target, scale, permits: { chaos: false } });
    expect(named(refused, "scale")?.state).toBe("skipped");
  });
});

describe("doctor on other deployments", () => {
  let stub: StubApi | undefined;
  afterEach(() => stub?.close());

  const small = (api: StubApi, more: Partial<Target> = {}): Target => {
    const { tenants: _tenants, ...target } = api.target();
    return { ...target, ...more };
  };

  test("a wrong reference is named by its role, and the others are tried all the same", async () => {
    stub = await startStubApi();
    const credentials = {
      server: { key: "env:FLOODGATE_NO_SUCH_VARIABLE" },
      publishable: stub.target().credentials?.publishable,
    };
    const diagnosis = await diagnose({ ...small(stub), credentials });
    expect(named(diagnosis, "server")).toMatchObject({
      state: "wrong",
      text: expect.stringContaining("credentials.server: expected the environment variable FLOODGATE_NO_SUCH_VARIABLE"),
    });
    expect(named(diagnosis, "publishable")?.state).toBe("ok");
  });

  test("budget.requests bounds every call, tenants' included", async () => {
    stub = await startStubApi();
    const diagnosis = await diagnose({ ...stub.target(), budget: { requests: 8 } });
    expect(stub.asked).toHaveLength(8);
    expect(diagnosis.spent.requests).toBe(8);
    const whole = await diagnose(stub.target());
    expect(whole.spent.requests).toBe(stub.asked.length - 8);
    expect(whole.spent.requests).toBeLessThanOrEqual(60);
  });

  test("keys are not sent to who redirects or shows a page", async () => {
    stub = await startStubApi();
    stub.instead = (_asked, res) => {
      res.writeHead(302, { location: "https://login.example/?next=secret" }).end();
      return true;
    };
    const moved = await diagnose(small(stub));
    expect(named(moved, "base_url")?.text).toContain("a redirect (302) to https://login.example/,");
    stub.instead = (_asked, res) => {
      res.writeHead(200, { "content-type": "text/html" }).end("<html>");
      return true;
    };
    expect(named(await diagnose(small(stub)), "base_url")?.state).toBe("wrong");
    const keys = stub.asked.flatMap(({ headers }) => [headers.authorization, headers["x-api-key"]]);
    expect(keys.filter((key) => key !== undefined)).toEqual([]);
  });

  test("HTTP/3 that an edge offers is told, because no call of ours takes it", async () => {
    stub = await startStubApi();
    expect(named(await diagnose(small(stub)), "HTTP/3")).toBeUndefined();
    stub.instead = (_asked, res) => {
      res.setHeader("alt-svc", 'h2=":443", h3=":443"; ma=86400');
      return false;
    };
    expect(named(await diagnose(small(stub)), "HTTP/3")).toMatchObject({
      state: "info",
      text: expect.stringContaining("is offered (Alt-Svc)"),
    });
  });

  test("a single page of a gateway is no mistake of the file: the call is made again", async () => {
    stub = await startStubApi();
    let mints = 0;
    stub.instead = ({ path }, res) => {
      if (!path.includes("/sdk/sessions") || mints++ > 0) return false;
      res.writeHead(522, { "content-type": "text/plain" }).end("error code: 522");
      return true;
    };
    expect(named(await diagnose(small(stub)), "publishable")).toMatchObject({ state: "ok" });
  });

  test("a gateway's answer to a role's call is no advice about its key", async () => {
    stub = await startStubApi();
    const { publishable = { key: "" } } = stub.target().credentials ?? {};
    stub.instead = ({ path }, res) => {
      if (!path.includes("/sdk/sessions")) return false;
      res.writeHead(502, { "content-type": "text/html" }).end("<html>");
      return true;
    };
    const diagnosis = await diagnose(small(stub, { credentials: { publishable_tile_only: publishable } }));
    expect(named(diagnosis, "publishable_tile_only")).toMatchObject({
      text: expect.stringContaining("got edge 502"),
      todo: expect.stringContaining("a balancer, firewall or proxy answered"),
    });
  });

  test("a key that lacks more than the one scope of its role is found", async () => {
    stub = await startStubApi();
    const { publishable = { key: "" }, server = { key: "" } } = stub.target().credentials ?? {};
    stub.instead = ({ headers }, res) => {
      if (headers.authorization === undefined) return false;
      res.writeHead(403, { "content-type": "application/json" }).end('{"detail":"insufficient_scope"}');
      return true;
    };
    const credentials = { publishable_no_ai: publishable, server_no_design: server };
    const diagnosis = await diagnose(small(stub, { credentials }));
    for (const role of Object.keys(credentials)) {
      expect(named(diagnosis, role)?.state).toBe("ok");
      expect(named(diagnosis, `${role}, its other scopes`)).toMatchObject({
        state: "wrong",
        text: expect.stringContaining("got 403 insufficient_scope"),
        todo: expect.stringContaining("key with every scope but"),
      });
    }
  });

  test("one that says 404 to strangers is found by its roles", async () => {
    stub = await startStubApi();
    stub.instead = ({ headers }, res) => {
      if (headers.authorization !== undefined) return false;
      res.writeHead(404).end('{"detail":"Not Found"}');
      return true;
    };
    const diagnosis = await diagnose(small(stub));
    expect(named(diagnosis, "base_url")).toMatchObject({
      state: "ok",
      text: expect.stringContaining("those who have a key"),
    });
    expect(named(diagnosis, "server")?.state).toBe("ok");
  });

  test("one that looks into X-Api-Key alone is said to, and overload is no wrong key", async () => {
    stub = await startStubApi();
    stub.instead = ({ headers, path }, res) => {
      if (path.includes("/sdk/sessions")) {
        res.writeHead(429, { "content-type": "application/json" }).end('{"error":"b2b_overloaded"}');
        return true;
      }
      if (headers["x-api-key"] !== undefined) return false;
      res.writeHead(401, { "content-type": "application/json" }).end("{}");
      return true;
    };
    const diagnosis = await diagnose(small(stub));
    expect(named(diagnosis, "server")).toMatchObject({
      state: "warn",
      text: expect.stringContaining("in X-Api-Key alone"),
      todo: expect.stringContaining("remove Authorization?"),
    });
    expect(named(diagnosis, "publishable")).toMatchObject({
      state: "warn",
      text: expect.stringContaining("b2b_overloaded"),
    });
  });

  test("a clock that is an hour off is warned of", async () => {
    stub = await startStubApi();
    stub.instead = (_asked, res) => {
      res.setHeader("date", new Date(Date.now() - 3_600_000).toUTCString());
      return false;
    };
    const found = named(await diagnose(small(stub)), "clock");
    expect([found?.state, found?.text]).toEqual(["warn", expect.stringMatching(/^(3599|3600)\.\d+ s behind ours/)]);
  });

  test("two roles with one key are said to have one", async () => {
    stub = await startStubApi();
    const { publishable } = stub.target().credentials ?? {};
    const credentials = { publishable, publishable_basemap: publishable, publishable_no_ai: publishable } as never;
    const found = section(await diagnose(small(stub, { credentials })), "Roles");
    const same = found.filter(({ text }) => text === "the same key as publishable");
    // A full key may be of the organization with the stored style, and cannot lack a scope.
    expect(same.map(({ name, state }) => [name, state])).toEqual([
      ["publishable_no_ai", "wrong"],
      ["publishable_basemap", "warn"],
    ]);
  });

  test("a control plane and a toxiproxy at which nobody listens are wrong, each by its name", async () => {
    stub = await startStubApi();
    const nobody = "http://127.0.0.1:1";
    const others = { control: { api: [nobody] }, toxiproxy: { api_url: nobody, proxies: { limiter: "limiter" } } };
    const found = section(await diagnose(small(stub, others)), "Other addresses of the file");
    expect(found.map(({ name, state }) => [name, state])).toEqual([
      ["control.api[0]", "wrong"],
      ["toxiproxy", "wrong"],
    ]);
  });

  test("what a control plane and a toxiproxy answer is said, a fault that an earlier run left included", async () => {
    stub = await startStubApi();
    const toxics: object[] = [];
    stub.instead = ({ path }, res) => {
      const answers: Record<string, unknown> = {
        "/gauges": { in_flight: 3 },
        "/version": { version: "2.12.0" },
        "/proxies": {
          limiter: { name: "limiter", listen: "127.0.0.1:1", upstream: "127.0.0.1:2", enabled: true, toxics },
        },
      };
      if (answers[path] === undefined) return false;
      res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answers[path]));
      return true;
    };
    const origin = stub.url.replace(/\/v1$/, "");
    const proxied = (limiter: string) => ({
      control: { api: [origin] },
      toxiproxy: { api_url: origin, proxies: { limiter } },
    });
    const look = async (limiter: string) =>
      section(await diagnose(small(stub as StubApi, proxied(limiter))), "Other addresses of the file");
    const [gauges, whole] = await look("limiter");
    expect(gauges).toMatchObject({ state: "ok", text: expect.stringContaining("3 in flight") });
    expect(whole).toMatchObject({ state: "ok", text: expect.stringContaining("2.12.0") });
    expect((await look("other"))[1]?.text).toContain("it has no proxy for limiter (other)");
    toxics.push({ name: "slow", type: "latency", stream: "downstream", toxicity: 1, attributes: { latency: 9 } });
    expect((await look("limiter"))[1]).toMatchObject({
      state: "wrong",
      text: expect.stringContaining("a fault is left"),
    });
  });

  test("nobody there: silent, one address and no call more than that", async () => {
    stub = await startStubApi();
    const target = small(stub);
    await stub.close();
    stub = undefined;
    const diagnosis = await diagnose(target);
    expect(worstOf(diagnosis.sections)).toBe("silent");
    expect(named(diagnosis, "base_url")?.text).toContain("ECONNREFUSED");
    expect(diagnosis.spent.requests).toBe(1);
  });

  test("the safety guard comes before anything is read or sent", async () => {
    const target = {
      schema: "floodgate/target@1",
      base_url: "https://maps.example/v1",
      credentials: { server: { key: "exec:touch must-not-be-run; echo key" } },
    };
    const diagnosis = await diagnose(target);
    expect(diagnosis.refusedByGuard.join()).toContain("--i-own maps.example");
    expect(diagnosis.spent.requests).toBe(0);
    const { existsSync } = await import("node:fs");
    expect(existsSync(join(folder, "must-not-be-run"))).toBe(false);
  });
});
