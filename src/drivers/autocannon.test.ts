import { afterEach, beforeEach, expect, test } from "vitest";
import { wallUs } from "../client/clock.ts";
import { type StubApi, startStubApi } from "../client/stub-api.fixture.ts";
import { createSecrets } from "../target/secrets.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import { type AutocannonOptions, runAutocannon } from "./autocannon.ts";

let stub: StubApi;
beforeEach(async () => {
  stub = await startStubApi();
});
afterEach(() => stub.close());

const run = (story: string, more: Partial<AutocannonOptions> = {}) => {
  const target = stub.target();
  return runAutocannon({
    target,
    view: viewOf(target),
    secrets: createSecrets("."),
    story: STORIES.get(story)!,
    seed: 1,
    stage: story,
    idPrefix: "run1.bench.c",
    connections: 4,
    durationS: 1,
    epochUs: wallUs(),
    ...more,
  });
};

test("keeps its connections busy with the story's calls, each with an id and its caller's key", async () => {
  const { byOutcome, ratePerS, problems } = await run("catalog-reads");
  expect(problems).toEqual([]);
  expect(Object.keys(byOutcome)).toEqual(["200"]);
  expect(ratePerS).toBeGreaterThan(0);
  expect(stub.inFlightMax).toBeLessThanOrEqual(4);
  expect(new Set(stub.asked.map(({ path }) => path)).size).toBe(3);
  const ids = stub.asked.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { id, headers } of stub.asked) {
    expect(id).toMatch(/^run1\.bench\.c-./);
    expect(String(headers.authorization ?? headers["x-api-key"])).toMatch(/svc_sk_live_tenant/);
  }
});

test("refusals and errors under status 200 keep their names", async () => {
  let n = 0;
  stub.instead = (_, res) => {
    const answers = [
      () => res.writeHead(429).end('{"error":"org_overloaded"}'),
      () => res.end('{"error":"no route"}'),
      () => res.writeHead(200, { "content-type": "text/event-stream" }).end('event: error\ndata: {"type":"error"}\n\n'),
    ];
    answers[n++ % answers.length]!();
    return true;
  };
  const { byOutcome } = await run("chat-past-capacity");
  expect(Object.keys(byOutcome).sort()).toEqual(["200 error", "429 org_overloaded"]);
});

test("a target that it cannot reach in the way the file says is refused by name", async () => {
  const target = stub.target({ transport: { proxy: "http://127.0.0.1:1" } });
  await expect(run("catalog-reads", { target })).rejects.toThrow(/a proxy/);
});
