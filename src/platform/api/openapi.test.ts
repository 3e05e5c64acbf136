import { Compile } from "typebox/schema";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type AnyRefusalName, REFUSALS, refusalOf } from "../../contract/refusals.ts";
import { ROUTE_NAMES, type RouteName, routeOf } from "../../contract/routes.ts";
import { writeRefusal } from "./answer.ts";
import { type Deployment, MESSAGES, startDeployment } from "./api.fixture.ts";
import { openApiDocument, refusalsOf } from "./openapi.ts";

// biome-ignore lint/suspicious/noExplicitAny: the document is read as the JSON that it is
const document: any = JSON.parse(openApiDocument());
const operationOf = (name: RouteName) => {
  const { path, method } = routeOf(name);
  return document.paths[path][method.toLowerCase()];
};

describe("the description of the API", () => {
  let on: Deployment;
  let secret: string;
  beforeAll(async () => {
    on = await startDeployment();
    secret = (await on.serverKey(await on.org())).secret;
  });
  afterAll(() => on?.close());

  test("is served beside the version segment, without a credential", async () => {
    const answer = await fetch(new URL("/openapi.json", on.api));
    expect([answer.status, answer.headers.get("content-type")]).toEqual([
      200,
      expect.stringContaining("application/json"),
    ]);
    expect(await answer.json()).toEqual(document);
    expect(document.openapi).toBe("3.1.0");
    expect(new URL(document.servers[0].url, on.api).href).toBe(on.api);
  });

  test("has every route, each path parameter declared, each with its own name", () => {
    for (const name of ROUTE_NAMES) {
      const operation = operationOf(name);
      expect(operation.operationId).toBe(name);
      const declared = (operation.parameters ?? []).filter(({ in: where }: { in: string }) => where === "path");
      const wanted = [...routeOf(name).path.matchAll(/\{(\w+)\}/g)].map(([, field]) => field);
      expect(declared.map(({ name: field }: { name: string }) => field)).toEqual(wanted);
    }
  });

  test("names every refusal of the specification on some route", () => {
    const named = new Set(ROUTE_NAMES.flatMap(refusalsOf));
    expect(Object.keys(REFUSALS).filter((name) => !named.has(name as AnyRefusalName))).toEqual([]);
  });

  test("what is written for a refusal fits what is said of it, and no flat body passes for a wrapped one", () => {
    const quota = { meter: "map_loads", limit: 5, used: 5 };
    for (const name of ROUTE_NAMES) {
      for (const refuse of refusalsOf(name)) {
        const { schema } = operationOf(name).responses[refusalOf(refuse).status].content["application/json"];
        const validator = Compile(schema);
        const body = JSON.parse(
          writeRefusal(refuse === "map_load_quota_exceeded" ? { refuse, quota } : { refuse }).body,
        );
        expect(validator.Check(body), `${name} ${refuse}`).toBe(true);
        if (refusalOf(refuse).envelope === "flat") expect(validator.Check({ detail: body.error })).toBe(false);
      }
    }
  });

  test("answers that are served fit what is said of them", async () => {
    const calls: [RouteName, string, string, unknown?][] = [
      ["chat.route", "POST", "/chat/control/route", { places: [1, 2], profile: "walking", raw_query: "" }],
      ["chat.route", "POST", "/chat/control/route", { places: [], profile: "walking", raw_query: "" }],
      ["poi.enrich", "GET", "/retrieval/poi/enrich?lat=1&lon=2&name=a&category=b"],
      ["poi.enrich", "GET", "/retrieval/poi/enrich?lat=x"],
      ["design.analyze", "POST", "/design/analyze", { dataset: { sample_rows: [{}] } }],
      ["design.apply", "POST", "/design/apply-direct", {}],
      ["design.styles", "GET", "/design/styles"],
      ["maps.loads", "POST", "/maps/loads"],
      ["maps.tiles", "GET", "/maps/tiles/1/1/1"],
      ["maps.tiles", "GET", "/maps/tiles/1/9/1"],
      ["chat.control", "POST", "/chat/control/stream", { ...MESSAGES, messages: [] }],
    ];
    for (const [name, method, path, body] of calls) {
      const heard = await on.call({ method, path, body, credential: secret });
      const said = operationOf(name).responses[heard.status];
      expect(said, `${name} ${heard.status}`).toBeDefined();
      const validator = Compile(said.content["application/json"].schema);
      expect(validator.Check(heard.json), `${name}: ${heard.text}`).toBe(true);
    }
  });

  test("marks the choices that the specification leaves open", () => {
    expect(operationOf("maps.loads")["x-harness-choice"]).toBe(true);
    expect(operationOf("sdk.sessions")["x-harness-choice"]).toBeUndefined();
    expect(JSON.stringify(operationOf("poi.enrich").responses[200])).toContain("x-harness-choice");
  });
});
