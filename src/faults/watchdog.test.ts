/** The watchdog beside a proxy: holds, heartbeats, and what it heals when they stop. Real sockets, a real toxiproxy. */
import { readFileSync, rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { openRemoteWatch, type RemoteWatch, whyNoWatchdog } from "../deployments/remote-watch.ts";
import { waitUntil } from "../supervision/waiting.ts";
import type { Target } from "../target/target.ts";
import { startForTests, startUpstream, toxiproxyOrSkip, type Upstream } from "../tools/toxiproxy.fixture.ts";
import type { ToxiproxyServer } from "../tools/toxiproxy-server.ts";
import { makeFault } from "./link-faults.ts";
import { createWatchdogLease, startWatchdogServer, type WatchdogServer } from "./watchdog-server.ts";

const TOKEN = "a-token-for-the-watchdog";
/** The issue's own bound for a network that was cut. */
const HEALED_MS = 10_000;

const path = toxiproxyOrSkip();
describe.skipIf(path === null)("the watchdog beside a proxy", () => {
  let server: ToxiproxyServer;
  let upstream: Upstream;
  let folder: string;
  let watchdog: WatchdogServer;
  let said: string[];
  const watches: RemoteWatch[] = [];
  beforeAll(async () => {
    upstream = await startUpstream();
    server = await startForTests(path as string);
    await server.toxiproxy.createProxy({ name: "a-stranger", upstream: upstream.address });
    await server.toxiproxy.proxy("a-stranger").setEnabled(false);
  });
  afterAll(async () => {
    await server?.stop();
    await upstream?.close();
  });
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "floodgate-watchdog-"));
    for (const name of ["limiter", "keys"]) await server.toxiproxy.createProxy({ name, upstream: upstream.address });
    said = [];
    const target: Target = {
      schema: "floodgate/target@1",
      base_url: "http://127.0.0.1:1/v1",
      toxiproxy: { api_url: server.apiUrl, proxies: { limiter: "limiter", keys: "keys" } },
      faults: { "limiter.stopped": { inject: ["false"], heal: [`echo healed >> ${join(folder, "log")}`] } },
      scale: { set: [`echo {replicas} >> ${join(folder, "replicas")}`], ready: "true {replicas}" },
    };
    const file = join(folder, "target.json");
    const listens = { host: "127.0.0.1", port: 0, token: TOKEN };
    watchdog = await startWatchdogServer({ target, file, ...listens, say: (text) => void said.push(text) });
  });
  afterEach(async () => {
    for (const watch of watches.splice(0)) await watch.close();
    await watchdog.close();
    for (const name of ["limiter", "keys", "network"]) await server.toxiproxy.removeProxy(name);
    rmSync(folder, { recursive: true, force: true });
    expect((await server.toxiproxy.proxy("a-stranger").read()).enabled, "a proxy that is not ours").toBe(false);
  });

  const open = (url = watchdog.url, token: string | null = TOKEN, holder = "run a"): RemoteWatch => {
    const watch = openRemoteWatch({ url, token, holder });
    watches.push(watch);
    return watch;
  };
  test.each(["/", "//", "/lease/x", "///@host"])(
    "at %s there is nothing, and it is no error of its own",
    async (where) => {
      const headers = { authorization: `Bearer ${TOKEN}` };
      const { statusCode, body } = await request(`${watchdog.url}${where}`, { headers });
      await body.dump();
      expect(statusCode).toBe(404);
    },
  );

  test("a body longer than any lease is refused unread", async () => {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const sent = JSON.stringify({ holder: "run a", holds: [], more: "x".repeat(64_000) });
    const { statusCode, body } = await request(`${watchdog.url}/lease`, { method: "PUT", headers, body: sent });
    await body.dump();
    expect(statusCode).toBe(413);
  });

  const limiter = { proxy: "limiter", disables: true };
  const isWhole = async (): Promise<boolean> => {
    const { enabled, toxics } = await server.toxiproxy.proxy("limiter").read();
    return enabled && toxics.length === 0;
  };
  const leaseOf = async (): Promise<unknown> => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const answer = await request(`${watchdog.url}/lease`, { headers });
    return ((await answer.body.json()) as { lease: unknown }).lease;
  };

  test("heartbeats keep what is broken as it is; the end of the lease leaves nothing behind", async () => {
    const watch = open();
    await watch.hold(limiter);
    await makeFault("refused", { budgetMs: 100 }).put(server.toxiproxy.proxy("limiter"));
    // Longer than a lease lasts without heartbeats.
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    expect(await isWhole()).toBe(false);
    expect(watch.lost()).toBeNull();
    await watch.close();
    expect(await isWhole()).toBe(true);
    expect(await leaseOf()).toBeNull();
  });

  test("between two faults nothing is held, and however long that is, the run may hold again", async () => {
    const watch = open();
    await watch.hold(limiter);
    await watch.release(limiter);
    expect(await leaseOf()).toBeNull();
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    await watch.hold(limiter);
    expect(await leaseOf()).toMatchObject({ holds: [limiter] });
    expect(watch.lost()).toBeNull();
  });

  test("the network to it is cut: healed in ten seconds, and the run hears of it when it is back", async () => {
    const { host } = new URL(watchdog.url);
    const way = await server.toxiproxy.createProxy({ name: "network", upstream: host });
    const watch = open(`http://${way.listen}`);
    await watch.hold(limiter);
    await watch.hold({ fault: "limiter.stopped" });
    await makeFault("reply-lost", { budgetMs: 100 }).put(server.toxiproxy.proxy("limiter"));
    await server.toxiproxy.proxy("network").setEnabled(false);
    const { met } = await waitUntil(isWhole, { forMs: HEALED_MS, pollMs: 50 });
    expect(met, said.join("\n")).toBe(true);
    await waitUntil(async () => said.some((text) => text.includes("healed faults.limiter.stopped")), {
      forMs: HEALED_MS,
      pollMs: 50,
    });
    expect(readFileSync(join(folder, "log"), "utf8")).toBe("healed\n");
    await waitUntil(async () => watch.lost() !== null, { forMs: HEALED_MS, pollMs: 50 });
    await server.toxiproxy.proxy("network").setEnabled(true);
    await expect(watch.hold(limiter)).rejects.toThrow("no heartbeat");
  });

  test("a number of replicas is set again at the end of the lease, by the commands of its own file", async () => {
    const watch = open();
    await watch.hold({ fault: "scale", replicas: 3 });
    await watch.close();
    expect(readFileSync(join(folder, "replicas"), "utf8")).toBe("3\n");
  });

  test("what it cannot heal is not held, and nothing may be broken then", async () => {
    const watch = open();
    await expect(watch.hold({ proxy: "a-stranger", disables: true })).rejects.toThrow(
      /nothing was injected.*a-stranger/,
    );
    await expect(watch.hold({ fault: "keys.stopped" })).rejects.toThrow('no faults["keys.stopped"]');
    await expect(open(watchdog.url, "a guess").hold(limiter)).rejects.toThrow("401");
    await expect(open("http://127.0.0.1:1").hold(limiter)).rejects.toThrow("chaos --watchdog --target FILE");
    expect(await leaseOf()).toBeNull();
  });

  test("whether it can be relied on is known beforehand", async () => {
    expect(await whyNoWatchdog({ url: watchdog.url, token: TOKEN })).toBeNull();
    expect(await whyNoWatchdog({ url: watchdog.url, token: null })).toContain("watchdog.token");
    expect(await whyNoWatchdog({ url: "http://127.0.0.1:1", token: null })).toContain("does not answer");
  });

  test("what something else answers in its place is shown as a shape", async () => {
    const page = createServer((_request, response) => void response.writeHead(404).end("<p>sk_live_of_another</p>"));
    await new Promise<void>((resolve) => page.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(page.address() as AddressInfo).port}`;
    const why = await whyNoWatchdog({ url, token: TOKEN });
    page.close();
    expect(why).toContain("answered 404 instead of 200");
    expect(why).not.toContain("of_another");
  });

  test("one run at a time", async () => {
    await open().hold(limiter);
    await expect(open(watchdog.url, TOKEN, "run b").hold(limiter)).rejects.toThrow("run a has broken something here");
  });

  test("stopped while something is held: healed first", async () => {
    await open().hold(limiter);
    await makeFault("refused", { budgetMs: 100 }).put(server.toxiproxy.proxy("limiter"));
    await watchdog.close();
    expect(await isWhole()).toBe(true);
  });

  const put = async (body: string, more: Record<string, string> = {}) => {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json", ...more };
    const answered = await request(`${watchdog.url}/lease`, { method: "PUT", headers, body });
    return { status: answered.statusCode, text: await answered.body.text() };
  };

  test.each<[string, string]>([
    ["a command", '{"holder":"x","holds":[{"commands":["touch /tmp/x"]}]}'],
    ["a fault of every object's own", '{"holder":"x","holds":[{"fault":"constructor"}]}'],
    ["a fault that is the prototype", '{"holder":"x","holds":[{"fault":"__proto__"}]}'],
    ["a prototype with a proxy", '{"holder":"x","holds":[{"__proto__":{"proxy":"limiter","disables":true}}]}'],
    ["a prototype for the body", '{"__proto__":{"holder":"x","holds":[]}}'],
    [
      "a proxy and a fault in one",
      '{"holder":"x","holds":[{"proxy":"limiter","disables":true,"fault":"limiter.stopped"}]}',
    ],
    ["a name with a control character", '{"holder":"x\\u001b[2J","holds":[]}'],
    ["a name without an end", JSON.stringify({ holder: "x".repeat(201), holds: [] })],
    ["more than anybody has", JSON.stringify({ holder: "x", holds: Array(65).fill({ fault: "limiter.stopped" }) })],
    ["no object", "[]"],
    ["nothing", "null"],
  ])("%s is not held, because a lease is made of known fields", async (_what, body) => {
    expect((await put(body)).status).toBe(422);
    expect(await leaseOf()).toBeNull();
  });

  test.each<[string, Record<string, string>, number]>([
    ["a name that was rebound", { host: "evil.example" }, 403],
    ["a page", { origin: "https://evil.example" }, 403],
    ["another site", { "sec-fetch-site": "cross-site" }, 403],
    ["a form", { "content-type": "text/plain" }, 415],
    ["no token", { authorization: "" }, 401],
  ])("a request by %s is refused", async (_who, more, status) => {
    expect((await put('{"holder":"x","holds":[{"fault":"limiter.stopped"}]}', more)).status).toBe(status);
    expect(await leaseOf()).toBeNull();
  });
});

test("a heal that never succeeds ends after a bound, and the log says so", async () => {
  const said: string[] = [];
  let tried = 0;
  const lease = createWatchdogLease({
    healOne: async () => {
      tried += 1;
      throw new Error("the proxy is wedged");
    },
    whyNot: async () => null,
    say: (text) => void said.push(text),
    tries: { most: 5, againMs: 1 },
  });
  await lease.beat("run a", [{ proxy: "limiter", disables: true }]);
  await lease.end("run a");
  expect(tried).toBe(5);
  expect(said.at(-1)).toContain('proxy "limiter" was NOT healed in 5 tries');
  // The next run is not kept waiting by what nobody can heal.
  await lease.beat("run b", []);
  await lease.close();
});

describe("a beat whose new fault takes long to be looked at", () => {
  const proxy = (name: string) => ({ proxy: name, disables: true });
  /** Looking at the proxy `slow` lasts until `answer` is called. */
  const leaseWithSlowProxy = () => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<null>();
    const healed: string[] = [];
    const lease = createWatchdogLease({
      healOne: async (held) => `${healed.push("proxy" in held ? held.proxy : held.fault)}`,
      whyNot: async (held) => ("proxy" in held && held.proxy === "slow" ? answered : null),
      say: () => undefined,
    });
    return { lease, answer: () => answer(null), healed };
  };

  test("takes no lease that expired meanwhile, because its faults were healed", async () => {
    vi.useFakeTimers();
    try {
      const { lease, answer, healed } = leaseWithSlowProxy();
      await lease.beat("run a", [proxy("limiter")]);
      const beat = lease.beat("run a", [proxy("limiter"), proxy("slow")]);
      await vi.advanceTimersByTimeAsync(4_000);
      expect(healed).toEqual(["limiter"]);
      answer();
      await expect(beat).rejects.toMatchObject({ statusCode: 410 });
      expect(lease.state()).toBeNull();
    } finally {
      vi.useRealTimers();
    }
  });

  test("takes no lease from a run that came first", async () => {
    const { lease, answer } = leaseWithSlowProxy();
    const beat = lease.beat("run a", [proxy("slow")]);
    await lease.beat("run b", [proxy("limiter")]);
    answer();
    await expect(beat).rejects.toMatchObject({ statusCode: 409 });
    expect(lease.state()).toMatchObject({ holder: "run b" });
    await lease.close();
  });
});
