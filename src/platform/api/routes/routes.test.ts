import type { TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RouteName } from "../../../contract/routes.ts";
import { SHAPES } from "../../schemas.ts";
import { type Deployment, outcomeOf, startDeployment } from "../api.fixture.ts";

let on: Deployment;
let org: string;
let secret: string;

beforeAll(async () => {
  on = await startDeployment();
  org = await on.org();
  secret = (await on.serverKey(org)).secret;
});
afterAll(() => on?.close());

const get = (path: string) => on.call({ path, credential: secret });
const post = (path: string, body?: unknown) => on.call({ method: "POST", path, body, credential: secret });
const poi = (query: Record<string, string>) => get(`/retrieval/poi/enrich?${new URLSearchParams(query)}`);
const fits = (name: RouteName, json: unknown): void => {
  const validator = Compile(SHAPES[name].answer as TSchema);
  expect(validator.Errors(json), JSON.stringify(json)).toEqual([]);
};
const usedOf = async (meter: string): Promise<number> => {
  const lines = await on.ledger("");
  return lines
    .filter((line) => line.org === org && line.meter === meter)
    .reduce((sum, { kind }) => sum + (kind === "charge" ? 1 : -1), 0);
};

describe("routes between places (items 96-98, 106-108; A11)", () => {
  const ask = (body: unknown) => post("/chat/control/route", body);

  test("success has a route and never an error (item 98)", async () => {
    const heard = await ask({
      places: [{ lat: 52.5, lon: 13.4 }, { lat: 52.6, lng: 13.5 }, "x"],
      profile: "cycling",
      raw_query: "q",
    });
    expect(heard.status).toBe(200);
    expect("error" in heard.json).toBe(false);
    fits("chat.route", heard.json);
    expect(heard.json.route.legs).toHaveLength(2);
  });

  test.each([
    ["fewer than two places", { places: [1], profile: "walking", raw_query: "" }],
    ["no places", { places: [], profile: "walking", raw_query: "" }],
    ["an unknown profile", { places: [1, 2], profile: "hovercraft", raw_query: "" }],
    ["a profile that is no text", { places: [1, 2], profile: null, raw_query: "" }],
    ["a place off the earth", { places: [{ lat: 99, lon: 0 }, 2], profile: "walking", raw_query: "" }],
  ])("its own failure is 200 with an error (items 97, 186): %s", async (_name, body) => {
    const heard = await ask(body);
    expect(heard.status).toBe(200);
    expect(heard.json).toEqual({ error: expect.any(String) });
  });

  test.each([
    ["no profile", { places: [1, 2], raw_query: "" }],
    ["no raw_query", { places: [1, 2], profile: "walking" }],
    ["places that are no list", { places: "x", profile: "walking", raw_query: "" }],
  ])("a malformed body is a 422 here too (item 96): %s", async (_name, body) => {
    expect(outcomeOf(await ask(body))).toBe("422 malformed_body");
  });
});

describe("points of interest (items 99, 109)", () => {
  const good = { lat: "52.5", lon: "13.4", name: "Café Müller", category: "cafe" };

  test("answers what was asked for, and facts (item 99)", async () => {
    const heard = await poi({ ...good, source: "osm", id: "n1", poi_context: "x", lang: "de" });
    expect(heard.status).toBe(200);
    fits("poi.enrich", heard.json);
    expect(heard.json.poi).toEqual({
      lat: 52.5,
      lon: 13.4,
      name: "Café Müller",
      category: "cafe",
      source: "osm",
      id: "n1",
    });
  });

  test.each([
    ["no lat", { lon: "1", name: "a", category: "b" }],
    ["a lat that is no number", { ...good, lat: "north" }],
    ["a lat out of range", { ...good, lat: "90.1" }],
    ["a lon out of range", { ...good, lon: "-180.5" }],
    ["an empty name", { ...good, name: "" }],
    ["no category", { lat: "1", lon: "1", name: "a" }],
  ])("%s is a 422", async (_name, query) => {
    expect(outcomeOf(await poi(query as Record<string, string>))).toBe("422 malformed_body");
  });

  test("numbers may be written in any way that JSON knows", async () => {
    const heard = await poi({ ...good, lat: "-1.5e1", lon: "2.1583217852960577e-197" });
    expect([heard.status, heard.json.poi.lat]).toEqual([200, -15]);
  });

  test("a parameter that came twice is a 422, not a guess", async () => {
    expect(outcomeOf(await get("/retrieval/poi/enrich?lat=1&lat=2&lon=1&name=a&category=b"))).toBe(
      "422 malformed_body",
    );
  });
});

describe("design (items 11, 112-123)", () => {
  const dataset = { dataset: { columns: [{ name: "lat" }], sample_rows: [{ lat: 1, lon: 2 }] } };

  test("analyze recommends, and counts one analysis (items 11, 112)", async () => {
    const before = await usedOf("design_analyses");
    const heard = await post("/design/analyze", { ...dataset, prompt: "colour by age", options: { any: [1] } });
    expect(heard.status).toBe(200);
    fits("design.analyze", heard.json);
    expect(await usedOf("design_analyses")).toBe(before + 1);
  });

  test("a refused or failed analyze counts nothing (items 123, 222)", async () => {
    const before = await usedOf("design_analyses");
    expect(outcomeOf(await post("/design/analyze", { dataset: {} }))).toBe("422 malformed_body");
    await on.ask("PATCH", "/deployment", { fail_next: { route: "design.analyze", mode: "route_error", count: 1 } });
    const failed = await post("/design/analyze", dataset);
    expect([failed.status, Object.keys(failed.json)]).toEqual([200, ["error"]]);
    await on.quiet();
    expect(await usedOf("design_analyses")).toBe(before);
  });

  test("apply-direct answers a partial map specification for any object (item 113)", async () => {
    for (const body of [{}, { dataset: { sample_rows: [{ geometry: {} }] }, roles: { a: "x" } }, { dataset: null }]) {
      const heard = await post("/design/apply-direct", body);
      expect(heard.status).toBe(200);
      fits("design.apply", heard.json);
    }
    expect(outcomeOf(await post("/design/apply-direct", [1]))).toBe("422 malformed_body");
  });

  test.each([
    ["design.styles", "/design/styles"],
    ["design.samples", "/design/samples"],
    ["design.themes", "/design/themes"],
  ] as const)("%s is a catalog (items 114-116)", async (name, path) => {
    const heard = await get(path);
    expect(heard.status).toBe(200);
    fits(name, heard.json);
  });

  test("the style catalog has the style that the specification names (items 35, 120)", async () => {
    expect((await get("/design/styles")).json.styles.map(({ id }: { id: string }) => id)).toContain("svc-morning");
  });

  test("a catalog asked for with HEAD has the head of GET and no body", async () => {
    const heard = await on.call({ method: "HEAD", path: "/design/styles", credential: secret });
    expect([heard.status, heard.text]).toEqual([200, ""]);
    expect(Number(heard.headers["content-length"])).toBeGreaterThan(2);
  });

  test("an optional cap of analyses answers rate_limited, no invented subcode (item 122)", async () => {
    const capped = await startDeployment({ designCap: 2 });
    try {
      const credential = (await capped.serverKey(await capped.org())).secret;
      const outcomes = [];
      for (let i = 0; i < 3; i += 1) {
        outcomes.push(
          outcomeOf(await capped.call({ method: "POST", path: "/design/analyze", body: dataset, credential })),
        );
      }
      expect(outcomes).toEqual(["200", "200", "429 rate_limited"]);
    } finally {
      await capped.close();
    }
  });
});

describe("the extensions (item 128)", () => {
  test("a map load is recorded with or without a body", async () => {
    const before = await usedOf("map_loads");
    const heard = await post("/maps/loads");
    expect(heard.status).toBe(200);
    fits("maps.loads", heard.json);
    expect(heard.json.used).toBe(before + 1);
    expect((await post("/maps/loads", { any: "thing" })).status).toBe(200);
    expect(outcomeOf(await post("/maps/loads", "{"))).toBe("422 malformed_body");
    expect(await usedOf("map_loads")).toBe(before + 2);
  });

  test("a tile answers its address and is free", async () => {
    const before = await usedOf("map_loads");
    const heard = await get("/maps/tiles/3/4/2");
    expect(heard.json).toEqual({ z: 3, x: 4, y: 2 });
    expect(await usedOf("map_loads")).toBe(before);
  });

  test.each(["/maps/tiles/23/0/0", "/maps/tiles/a/0/0", "/maps/tiles/-1/0/0", "/maps/tiles/1/0.5/0"])(
    "%s is no address of a tile",
    async (path) => {
      expect(outcomeOf(await get(path))).toBe("422 malformed_body");
    },
  );

  test("a tile beyond the edge of its zoom is not found", async () => {
    expect(outcomeOf(await get("/maps/tiles/3/8/0"))).toBe("404 Not Found");
    expect((await get("/maps/tiles/3/7/7")).status).toBe(200);
  });
});

describe("bodies", () => {
  test.each([
    ["empty messages", { messages: [] }],
    ["no messages", {}],
    ["a message without a role", { messages: [{ content: "x" }] }],
    ["a message without content (item 91)", { messages: [{ role: "user" }] }],
    ["a role that is no text", { messages: [{ role: 1, content: "x" }] }],
    ["content that is no text", { messages: [{ role: "user", content: 1 }] }],
    ["a list", []],
    ["null", null],
  ])("a chat with %s is a 422 (item 202)", async (_name, body) => {
    expect(outcomeOf(await post("/chat/control/stream", JSON.stringify(body)))).toBe("422 malformed_body");
  });

  test("a summary of an unknown type is a 422 (item 93)", async () => {
    expect(outcomeOf(await post("/chat/summary/stream", { type: "river" }))).toBe("422 malformed_body");
  });

  test("optional members take any JSON (item 102), other roles and members too (item 90)", async () => {
    for (const value of [null, 7, "x", [], { a: 1 }]) {
      const heard = await post("/chat/control/stream", {
        messages: [{ role: "narrator", content: "", extra: 1 }],
        location: value,
        map_zoom: value,
        lang: value,
        session_id: value,
        app_snapshot: value,
        auto_actions: value,
        other: value,
      });
      expect(heard.status, heard.text).toBe(200);
    }
  });
});
