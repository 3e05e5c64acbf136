/**
 * The description against a running server: callers of every kind call every route, and each answer must be one that the
 * description of that route tells of, in the shape that it tells. Between them they hear every refusal of the specification.
 */
import { createParser } from "eventsource-parser";
import { Compile } from "typebox/schema";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OUTCOMES } from "../../contract/refusals.ts";
import { ROUTE_NAMES, type RouteName, routeOf, type Surface } from "../../contract/routes.ts";
import { ERROR_EVENT, eventNamesOf } from "../../contract/streams.ts";
import type { CallOptions, Heard } from "../start-platform.fixture.ts";
import { type Deployment, FOREIGN, MESSAGES, ORIGIN, outcomeOf, startDeployment } from "./api.fixture.ts";
import { openApiDocument } from "./openapi.ts";

// biome-ignore lint/suspicious/noExplicitAny: the document is read as the JSON that it is
const document: any = JSON.parse(openApiDocument());

const REQUESTS: Readonly<Record<RouteName, Partial<CallOptions>>> = {
  "sdk.sessions": { body: { product: "tile" } },
  "chat.control": { body: { ...MESSAGES, auto_actions: true } },
  "chat.summary": { body: { type: "poi" } },
  "chat.button": { body: { question: "open now?" } },
  "chat.route": { body: { places: ["a", "b"], profile: "walking", raw_query: "" } },
  "poi.enrich": { path: "/retrieval/poi/enrich?lat=1&lon=2&name=a&category=b" },
  "design.analyze": { body: { dataset: { sample_rows: [{ a: 1 }] } } },
  "design.apply": { body: { columns: [] } },
  "design.styles": {},
  "design.samples": {},
  "design.themes": {},
  "maps.loads": {},
  "maps.tiles": { path: "/maps/tiles/3/1/2" },
  "keys.create": { body: { kind: "server", scopes: ["ai"] } },
  "keys.update": { path: "/shared-api/api-keys/key_nobody", body: { name: "new" } },
  "keys.delete": { path: "/shared-api/api-keys/key_nobody" },
};

const operationOf = (name: RouteName) => {
  const { path, method } = routeOf(name);
  return document.paths[path][method.toLowerCase()];
};

const heardOutcomes = new Set<string>();

const send = (to: Deployment, name: RouteName, more: Partial<CallOptions>): Promise<Heard> => {
  const { path, method } = routeOf(name);
  return to.call({ path, method, ...REQUESTS[name], ...more });
};

/** Calls the route and checks the answer against the description. */
const hear = async (to: Deployment, name: RouteName, more: Partial<CallOptions>): Promise<void> => {
  const heard = await send(to, name, more);
  const outcome = outcomeOf(heard);
  heardOutcomes.add(outcome);
  const what = `${name}: ${outcome}`;
  const told = operationOf(name).responses[heard.status];
  expect(told, what).toBeDefined();
  const missing = Object.keys(told.headers).filter((header) => heard.headers[header.toLowerCase()] === undefined);
  // Of several refusals with one status, some have it.
  expect(
    missing.filter((header) => header !== "Retry-After"),
    what,
  ).toEqual([]);
  const [mediaType] = String(heard.headers["content-type"] ?? "").split(";");
  expect(Object.keys(told.content ?? { "": null }), what).toEqual([mediaType]);
  if (mediaType !== "application/json") return;
  const [fits, faults] = Compile(told.content["application/json"].schema).Errors(heard.json);
  expect(fits ? [] : faults, what).toEqual([]);
};

const hearAll = async (more: Partial<CallOptions>, to: Deployment): Promise<void> => {
  for (const name of ROUTE_NAMES) await hear(to, name, more);
};

const of = (surface: Surface): RouteName[] => ROUTE_NAMES.filter((name) => routeOf(name).surface === surface);

describe("what is served is what is told", () => {
  let on: Deployment;
  let org: string;
  const browser = { origin: ORIGIN };

  beforeAll(async () => {
    on = await startDeployment({ inference: { serviceMs: 1, tokens: 4 } });
    org = await on.org({ key_limit: 1_000 });
  });
  afterAll(() => on?.close());

  test("to whom a route is open, and to whom it is closed", async () => {
    const publishable = await on.key(org);
    const { secret: server } = await on.serverKey(org);
    const callers: Partial<CallOptions>[] = [
      {},
      { credential: "garbage" },
      { credential: await on.adminToken(org) },
      { credential: server },
      { apiKey: server },
      { credential: server, ...browser },
      { credential: (await on.serverKey(org, { allowed_ips: ["192.0.2.0/24"] })).secret },
      { credential: (await on.serverKey(org, { scopes: [] })).secret },
      { credential: publishable.secret },
      { credential: publishable.secret, ...browser },
      { credential: publishable.secret, origin: FOREIGN },
      { credential: (await on.key(org, { scopes: ["ai"] })).secret, ...browser },
      { credential: (await on.key(org, { products: ["chat"] })).secret, ...browser },
      { credential: await on.session(publishable), ...browser },
      { credential: await on.session(publishable), origin: FOREIGN },
      { credential: await on.session(publishable, "tile"), origin: FOREIGN },
    ];
    for (const caller of callers) await hearAll(caller, on);
  });

  test("an organization that went to Free, and meters that are used up", async () => {
    const free = await on.org({ tier: "Free" });
    await hearAll({ credential: (await on.serverKey(free)).secret }, on);
    const spent = { tier: "Free", map_load_allowance: 5, map_loads_used: 5 } as const;
    await hear(on, "sdk.sessions", { credential: (await on.key(await on.org(spent))).secret, ...browser });
    const stopped = await on.org({ map_load_allowance: 5, map_loads_used: 25 });
    await hear(on, "sdk.sessions", { credential: (await on.key(stopped)).secret, ...browser });
    await hear(on, "maps.loads", { credential: (await on.serverKey(stopped)).secret });
  });

  test("what is spoilt: bodies, queries, paths, and more than is read", async () => {
    const { secret: server } = await on.serverKey(org);
    const { secret: publishable } = await on.key(org);
    const admin = await on.adminToken(org);
    for (const name of ROUTE_NAMES) {
      const { surface, method } = routeOf(name);
      const credential = { exchange: publishable, runtime: server, management: admin }[surface];
      const who = { credential, ...(surface === "exchange" ? browser : {}) };
      const [path] = (REQUESTS[name].path ?? routeOf(name).path).split("?") as [string];
      if (name === "poi.enrich") await hear(on, name, { ...who, path: `${path}?lat=north` });
      if (name === "maps.tiles") await hear(on, name, { ...who, path: "/maps/tiles/1/x/0" });
      if (name === "maps.tiles") await hear(on, name, { ...who, path: "/maps/tiles/1/9/0" });
      if (method === "GET" || method === "DELETE") continue;
      await hear(on, name, { ...who, body: "{" });
      await hear(on, name, { ...who, body: "7" });
      await hear(on, name, { ...who, body: Buffer.alloc(1_048_577, " ") });
    }
  });

  test("key management", async () => {
    const plans = await Promise.all([
      on.org({ key_limit: 1_000 }),
      on.org({ tier: "Free" }),
      on.org({ tier: null }),
      on.org({ key_limit: 0 }),
    ]);
    const [pro, free] = plans;
    const keys = await Promise.all([on.key(pro), on.key(free, { scopes: ["maps"], products: ["tile"] })]);
    const bodies: Record<string, unknown>[] = [
      { kind: "server" },
      { kind: "publishable", allowed_origins: [ORIGIN], scopes: ["ai"] },
      { kind: "publishable" },
      { kind: "server", scopes: ["everything"] },
      { kind: "server", products: ["everything"] },
      { kind: "server", scopes: ["vendor"] },
      { kind: "server", allowed_origins: ["no origin"] },
      { kind: "server", allowed_ips: ["no address"] },
    ];
    for (const plan of plans) {
      const credential = await on.adminToken(plan);
      for (const body of bodies) await hear(on, "keys.create", { credential, body });
      for (const { id } of keys) {
        const path = `/shared-api/api-keys/${id}`;
        for (const { kind: _, ...body } of bodies) await hear(on, "keys.update", { credential, path, body });
      }
    }
    const revoke = { credential: await on.adminToken(pro), path: `/shared-api/api-keys/${keys[0].id}` };
    for (let i = 0; i < 2; i += 1) await hear(on, "keys.delete", revoke);
  });

  test("a deployment that sheds, limits, or issues no sessions", async () => {
    const { secret: server } = await on.serverKey(org);
    const exchanging = { credential: (await on.key(org)).secret, ...browser };
    const busy = async (limits: object): Promise<void> => {
      await on.ask("PATCH", "/deployment", limits);
      await hearAll({ credential: server }, on);
      await hear(on, "sdk.sessions", exchanging);
    };
    await busy({ global_in_flight: 0 });
    await busy({ global_in_flight: 64, org_in_flight: 0 });
    await on.ask("PATCH", "/deployment", { org_in_flight: 32 });
    for (const sessions of ["disabled", "not_configured"]) {
      await on.ask("PATCH", "/deployment", { sessions });
      await hear(on, "sdk.sessions", exchanging);
    }
    await on.ask("PATCH", "/deployment", { sessions: "enabled" });

    const slow = await startDeployment({ rateLimit: { perS: 0.001, burst: 1 } });
    try {
      const { secret } = await slow.serverKey(await slow.org());
      await hearAll({ credential: secret }, slow);
    } finally {
      await slow.close();
    }
  });

  test("dependencies that are away", async () => {
    const nobody = "http://127.0.0.1:1";
    for (const away of ["limiter", "keys"] as const) {
      const broken = await startDeployment({ links: (services) => ({ ...services, [away]: nobody }) });
      try {
        const its = await broken.org();
        await hearAll({ credential: (await broken.serverKey(its)).secret }, broken);
        await hearAll({ credential: (await broken.key(its)).secret, ...browser }, broken);
        await hearAll({ credential: await broken.adminToken(its) }, broken);
      } finally {
        await broken.close();
      }
    }
  });

  test("every event of a stream has the name and the data that are told, and each that is told is heard", async () => {
    const { secret } = await on.serverKey(org);
    for (const name of of("runtime")) {
      const kind = routeOf(name).stream;
      if (kind === undefined) continue;
      const { schema } = operationOf(name).responses[200].content["text/event-stream"];
      const said = new Set<string>();
      for (const failing of [false, true]) {
        const failure = { route: name, mode: "error_event", after_events: 1, count: 1 };
        if (failing) await on.ask("PATCH", "/deployment", { fail_next: failure });
        const { text } = await send(on, name, { credential: secret });
        const parser = createParser({
          onEvent: ({ event, data }) => {
            said.add(event as string);
            expect(Compile(schema).Check({ event, data }), `${name}: ${event}`).toBe(true);
            const one = schema.anyOf.find(
              ({ properties }: never) => (properties as { event: { const?: string } }).event.const === event,
            );
            const [fits, faults] = Compile(one.properties.data.contentSchema).Errors(JSON.parse(data));
            expect(fits ? [] : faults, `${name}: ${event} ${data}`).toEqual([]);
          },
        });
        parser.feed(text);
      }
      expect([...said].sort(), name).toEqual([...eventNamesOf(kind), ERROR_EVENT].sort());
    }
  });

  test("all that was heard is every refusal of the specification", () => {
    const refusals = OUTCOMES.filter((outcome) => !outcome.startsWith("200"));
    expect(refusals.filter((outcome) => !heardOutcomes.has(outcome))).toEqual([]);
  });
});
