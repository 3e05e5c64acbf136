/** The client of a control plane, against one that has a token. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { getGlobalDispatcher, ProxyAgent, setGlobalDispatcher } from "undici";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { type Running, startRole } from "../platform/start-role.ts";
import { redactor } from "../supervision/redaction.ts";
import { controlGet, controlSend, readCounts, readGauges, readUsed } from "./control-planes.ts";

const TOKEN = "correct-horse-battery";
let running: Running;
let control = "";
beforeAll(async () => {
  running = await startRole("all", { controlPort: 0, controlHost: "0.0.0.0", controlToken: TOKEN, logLevel: "silent" });
  control = `http://127.0.0.1:${new URL(running.urls.control?.api as string).port}`;
});
afterAll(() => running.close());
afterEach(() => vi.unstubAllEnvs());

test("sends the token that the environment has, to read and to write, and masks it from then on", async () => {
  vi.stubEnv("FLOODGATE_CONTROL_TOKEN", TOKEN);
  expect(await readGauges([control])).toMatchObject([{ in_flight: 0 }]);
  expect(await controlSend("POST", `${control}/orgs`, { id: "org_1", tier: "Pro" })).toMatchObject({ id: "org_1" });
  expect(redactor.redact(`authorization: Bearer ${TOKEN}`)).toBe("authorization: Bearer [masked]");
});

test.each([undefined, "", "another-token-altogether"])(
  "with %j in its place, the sentence says what to set",
  async (token) => {
    vi.stubEnv("FLOODGATE_CONTROL_TOKEN", token);
    await expect(readGauges([control])).rejects.toThrow("status 401: set FLOODGATE_CONTROL_TOKEN");
  },
);

test("takes no proxy of the environment, which Node gives to every call without a dispatcher", async () => {
  vi.stubEnv("FLOODGATE_CONTROL_TOKEN", TOKEN);
  const before = getGlobalDispatcher();
  using atEnd = new DisposableStack();
  atEnd.defer(() => setGlobalDispatcher(before));
  setGlobalDispatcher(new ProxyAgent("http://127.0.0.1:9"));
  expect(await readGauges([control])).toMatchObject([{ in_flight: 0 }]);
});

test("of what a plane says, numbers under known names are kept; it reaches into no object, and no sentence quotes it", async () => {
  const said = "opaque-admin-Token-77";
  const gauges = {
    in_flight: 1,
    in_flight_by_org: { org_a: 1, b: said, ["__proto__"]: 3 },
    sockets: said,
    error: said,
  };
  const answers: Record<string, string> = {
    "/gauges": JSON.stringify(gauges),
    "/gauges?gc=true": JSON.stringify({ error: said }),
    "/counts?run=r": `{"__proto__": {"toString": 7, "org_a": 1}, "200": {"constructor": 1, "org_a": 2}, "403 x": null}`,
    "/orgs/a": JSON.stringify({ map_loads_used: said }),
    "/deployment": said,
  };
  const server = createServer((req, res) => res.end(answers[req.url ?? ""]));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    expect(await readGauges([url])).toEqual([{ in_flight: 1, in_flight_by_org: { org_a: 1, other_9_eecc: 3 } }]);
    expect(await readCounts([url], "r")).toEqual({
      other_9_eecc: { other_8_2f05: 7, org_a: 1 },
      "200": { other_11_6d12: 1, org_a: 2 },
      "403 x": {},
    });
    expect({}.toString()).toBe("[object Object]");
    expect("org_a" in {}).toBe(false);
    expect(await readUsed(url, "a")).toBeUndefined();
    const reads = [readGauges([url], { collected: true }), controlGet(`${url}/deployment`)];
    const reasons = reads.map((read) => read.then(String, (error: Error) => error.message));
    for (const why of await Promise.all(reasons)) {
      expect(why).toContain("did not answer as expected");
      expect(why).not.toContain(said.slice(0, 6));
    }
  } finally {
    server.close();
  }
});
