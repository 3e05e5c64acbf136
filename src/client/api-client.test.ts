import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import { createRunClock, wallUs } from "../supervision/waiting.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { exchangeStep, type Step, stepOf } from "../workload/step.ts";
import { type ApiClient, openApiClient } from "./api-client.ts";
import { type StubApi, startStubApi } from "./stub-api.fixture.ts";

let stub: StubApi;
const clients: ApiClient[] = [];
const minted: CallLine[] = [];

beforeEach(async () => {
  stub = await startStubApi();
  minted.length = 0;
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await stub.close();
});

const clientTo = async (target: Target): Promise<ApiClient> => {
  const client = await openApiClient({
    target,
    secrets: createSecrets("."),
    view: viewOf(target),
    clock: { ...createRunClock(wallUs()), errorUs: 7 },
    stage: "probe",
    driver: "test",
    idPrefix: "run1-probe",
    timeouts: { callMs: 5000 },
    onLine: (line) => minted.push(line),
  });
  clients.push(client);
  return client;
};

const context = { id: "run1-probe-1", stage: "probe", driver: "test", intendedUs: 0 };
const view = () => viewOf(stub.target());
const byServer = (route: Parameters<typeof stepOf>[2]["route"], n = 0): Step =>
  stepOf(view(), n, { route, credential: { as: "server", of: "role:server" } });

describe("what is sent", () => {
  test("the call's id, the key in either header, JSON with its type, and no origin for a server", async () => {
    const client = await clientTo(stub.target());
    await client.send(byServer("chat.route", 0), context);
    await client.send(byServer("chat.route", 1), { ...context, id: "run1-probe-2" });
    const [first, second] = stub.asked;
    expect(first!.headers).toMatchObject({
      "x-request-id": "run1-probe-1",
      authorization: "Bearer svc_sk_live_role",
      "content-type": "application/json",
    });
    expect(first!.headers.origin).toBeUndefined();
    expect(second!.headers).toMatchObject({ "x-request-id": "run1-probe-2", "x-api-key": "svc_sk_live_role" });
    expect(second!.headers.authorization).toBeUndefined();
  });

  test("a session is minted once, with the listed origin, and its own call has a line", async () => {
    const client = await clientTo(stub.target());
    const step = stepOf(view(), 0, {
      route: "design.styles",
      credential: { as: "session", of: "role:publishable", product: "editor" },
      origin: "listed",
    });
    await Promise.all([client.send(step, context), client.send(step, { ...context, id: "run1-probe-2" })]);
    expect(stub.asked.map(({ path }) => path)).toEqual(["/v1/sdk/sessions", "/v1/design/styles", "/v1/design/styles"]);
    expect(stub.asked[0]!.headers).toMatchObject({ "x-request-id": "run1-probe-s0", origin: "https://app.example" });
    expect(stub.asked[1]!.headers).toMatchObject({
      authorization: "Bearer svc_sess_live_aaaaa.bbbbb.s0",
      origin: "https://app.example",
    });
    expect(minted).toMatchObject([{ id: "run1-probe-s0", route: "sdk.sessions", outcome: "200", expires_in: 900 }]);
  });

  test("a session that was refused is minted anew for the next call", async () => {
    const client = await clientTo(stub.target());
    const step = stepOf(view(), 0, {
      route: "design.styles",
      credential: { as: "session", of: "role:publishable", product: "editor" },
    });
    stub.instead = ({ path }, res) => {
      if (!path.endsWith("/design/styles") || minted.length > 1) return false;
      res.writeHead(401, { "content-type": "application/json" }).end("{}");
      return true;
    };
    expect((await client.send(step, context)).line.outcome).toBe("401");
    expect((await client.send(step, context)).line.outcome).toBe("200");
    expect(minted).toHaveLength(2);
  });

  test("a session that has ended is not sent any more, but minted anew", async () => {
    stub.expiresIn = 1;
    const client = await clientTo(stub.target());
    const step = stepOf(view(), 0, {
      route: "design.styles",
      credential: { as: "session", of: "role:publishable", product: "editor" },
    });
    await client.send(step, context);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await client.send(step, context);
    expect(minted.length).toBe(2);
    expect(stub.asked.at(-1)!.headers.authorization).toBe("Bearer svc_sess_live_aaaaa.bbbbb.s1");
  });

  test("no credential, garbage and an unknown key of the kind that the route takes", async () => {
    const client = await clientTo(stub.target());
    for (const as of ["none", "garbage", "unknown"] as const) {
      await client.send(stepOf(view(), 0, { route: "design.styles", credential: { as } }), context);
    }
    const exchange = stepOf(view(), 0, { route: "sdk.sessions", credential: { as: "unknown" }, origin: "foreign" });
    await client.send(exchange, context);
    const sent = stub.asked.map(({ headers }) => headers.authorization);
    expect(sent[0]).toBeUndefined();
    expect(sent[1]).not.toMatch(/svc_/);
    expect(sent[2]).toMatch(/^Bearer svc_sk_live_/);
    expect(sent[3]).toMatch(/^Bearer svc_pk_live_/);
    expect(stub.asked[3]!.headers.origin).toBe("https://foreign.example");
  });

  test("tiles go where the target file says, and its headers go along", async () => {
    const tiles = stub.url.replace("/v1", "/elsewhere/maps/tiles/{z}-{x}-{y}");
    const client = await clientTo(stub.target({ tile_url: tiles, transport: { headers: { "X-Canary": "1" } } }));
    await client.send(byServer("maps.tiles", 5), context);
    expect(stub.asked[0]).toMatchObject({ path: "/elsewhere/maps/tiles/12-2005-1305", headers: { "x-canary": "1" } });
  });

  test("a role without a key is named, and nothing is sent", async () => {
    const client = await clientTo(stub.target());
    const step = stepOf(view(), 0, {
      route: "design.styles",
      credential: { as: "server", of: "role:server_no_design" },
    });
    await expect(client.send(step, context)).rejects.toThrow("role:server_no_design");
    expect(stub.asked).toEqual([]);
  });
});

describe("the line of a call", () => {
  test("an admitted call: times in order, organization, bucket, facts and clock error", async () => {
    const client = await clientTo(stub.target());
    const { line } = await client.send(byServer("design.analyze"), context);
    expect(line).toMatchObject({
      type: "call",
      id: "run1-probe-1",
      stage: "probe",
      driver: "test",
      org: "org_a",
      bucket: "role:server/server",
      route: "design.analyze",
      outcome: "200",
      meter: "design_analyses",
      clock_error_us: 7,
      facts: { credential: "server", origin: "none", tier: "Pro", body: "ok", ip: "allowed" },
    });
    expect(line.intended_us).toBeLessThanOrEqual(line.sent_us);
    expect(line.sent_us).toBeLessThanOrEqual(line.first_us!);
    expect(line.first_us!).toBeLessThanOrEqual(line.done_us);
  });

  test.each([
    [429, '{"error":"org_overloaded"}', { outcome: "429 org_overloaded", envelope: "flat", retry_after: "1" }],
    [429, '{"detail":"rate_limited"}', { outcome: "429 rate_limited", envelope: "detail" }],
    [503, "{}", { outcome: "503", envelope: "none" }],
    [502, "<html>bad gateway</html>", { outcome: "edge 502" }],
    [200, '{"error":"no route"}', { outcome: "200 error", envelope: "flat" }],
    [
      429,
      '{"error":"map_load_quota_exceeded","meter":"map_loads","limit":5,"used":5}',
      { outcome: "429 map_load_quota_exceeded", quota: { meter: "map_loads", limit: 5, used: 5 } },
    ],
  ])("status %i with %s", async (status, body, expected) => {
    stub.instead = (_, res) => {
      res.writeHead(status, { "retry-after": "1" }).end(body);
      return true;
    };
    const client = await clientTo(stub.target());
    expect((await client.send(byServer("chat.route"), context)).line).toMatchObject(expected);
  });

  test("an exchange tells what was minted", async () => {
    const client = await clientTo(stub.target());
    const { line } = await client.send(exchangeStep(view(), 0, "tenant:org_t1", "tile"), context);
    expect(line).toMatchObject({ org: "org_t1", meter: "map_loads", product: "tile", expires_in: 900 });
  });

  test("a stream tells its end, its events and their names", async () => {
    const client = await clientTo(stub.target());
    const { line } = await client.send(byServer("chat.summary"), context);
    expect(line).toMatchObject({
      outcome: "200",
      ended: "done",
      events: 3,
      event_names: ["summary_delta", "summary_done"],
    });
    expect(line.last_event_us).toBe(line.done_us);
    expect(line.late).toBeUndefined();
  });

  test("a refused stream has its outcome by name", async () => {
    stub.instead = (_, res) => {
      res.writeHead(429, { "content-type": "application/json" }).end('{"error":"b2b_overloaded"}');
      return true;
    };
    const client = await clientTo(stub.target());
    const { line } = await client.send(byServer("chat.control"), context);
    expect(line).toMatchObject({ outcome: "429 b2b_overloaded", ended: "refused" });
    expect(line.events).toBeUndefined();
  });

  test("no answer, and half an answer, are indeterminate, with the transport's word", async () => {
    const client = await clientTo(stub.target());
    stub.instead = (_, res) => {
      res.socket!.resetAndDestroy();
      return true;
    };
    expect((await client.send(byServer("design.styles"), context)).line).toMatchObject({
      outcome: "indeterminate",
      first_us: null,
      error: "connection_reset",
    });
    stub.instead = (_, res) => {
      res.writeHead(200, { "content-length": "100" }).write('{"half":', () => res.socket!.end());
      return true;
    };
    expect((await client.send(byServer("design.styles"), context)).line.outcome).toBe("indeterminate");
  });

  test("no line holds a secret", async () => {
    const client = await clientTo(stub.target());
    const lines = [
      (await client.send(byServer("chat.control"), context)).line,
      (await client.send(exchangeStep(view(), 0, "role:publishable", "chat"), context)).line,
    ];
    expect(JSON.stringify(lines)).not.toMatch(/svc_(pk|sk|sess)_live/);
  });
});
