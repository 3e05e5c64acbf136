/** Observers and control planes that take a connection and say nothing, or a byte a second: what a stage waits for them is bounded. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Target } from "../target/target.ts";
import { observe, readAllWitnesses, readTenants } from "./witnesses.ts";

let server: Server;
let url: string;
const timers: NodeJS.Timeout[] = [];
beforeAll(async () => {
  server = createServer((req, res) => {
    if (!(req.url ?? "").startsWith("/trickle")) return;
    res.writeHead(200, { "content-type": "application/json" });
    timers.push(setInterval(() => res.write(" "), 200));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  for (const timer of timers) clearInterval(timer);
  server.closeAllConnections();
  server.close();
});

const MANY = Array.from({ length: 60 }, (_, k) => ({ org: `org_${k}`, tier: "Pro" as const, limit: 5 }));

const targetAt = (place: string): Target => ({
  schema: "floodgate/target@1",
  base_url: `${url}/v1`,
  tenants: MANY,
  control: { keys: `${url}${place}`, limiter: `${url}/mute`, api: [`${url}${place}`, `${url}${place}/second`] },
  observers: {
    prometheus: { url: `${url}${place}`, queries: { cpu: "a", in_flight: "b", replicas: "c", restarts: "d" } },
  },
});

test("a control plane that answers later than a shared deployment is waited for still shows that it is drained", async () => {
  const slow = createServer((_, res) => {
    timers.push(setTimeout(() => res.end(JSON.stringify({ in_flight: 0 })), 1_300));
  });
  await new Promise<void>((resolve) => slow.listen(0, "127.0.0.1", resolve));
  const control = { api: [`http://127.0.0.1:${(slow.address() as AddressInfo).port}`] };
  const target: Target = { schema: "floodgate/target@1", base_url: `${url}/v1`, control };
  const { signal } = new AbortController();
  const { own } = await readAllWitnesses({ target, folder: ".", exclusive: false }, "run", 0, signal);
  slow.closeAllConnections();
  slow.close();
  expect(own.drained).toBe(true);
});

test("a run that is stopped does not wait for an API that is gone to drain", async () => {
  const control = { api: ["http://127.0.0.1:1"] };
  const target: Target = { schema: "floodgate/target@1", base_url: `${url}/v1`, control };
  const began = performance.now();
  const { own } = await readAllWitnesses({ target, folder: ".", exclusive: true }, "run", 0, AbortSignal.abort());
  expect(own.drained).toBe(false);
  // An API that is there is given 15 s.
  expect(performance.now() - began).toBeLessThan(10_000);
});

/** Above the sum of the deadlines, below one for each of the many that are asked; the runner's own bound on 8 s of load. */
const BOUND_MS = 60_000;

describe.concurrent.each(["/mute", "/trickle"])("what never answers whole (%s)", (place) => {
  test("costs a stage a bounded time for all its tenants, queries and witnesses, and is absent then", async () => {
    const target = targetAt(place);
    const began = performance.now();
    const [tenants, observed, witnesses] = await Promise.all([
      readTenants(target),
      observe({ target }),
      readAllWitnesses({ target, folder: ".", exclusive: false }, "run", 0, new AbortController().signal),
    ]);
    expect(performance.now() - began).toBeLessThan(BOUND_MS);
    expect(Object.keys(tenants)).toHaveLength(MANY.length);
    expect(Object.values(tenants).filter(({ used_at_start }) => used_at_start !== undefined)).toEqual([]);
    expect([observed.values, observed.troubles.length]).toEqual([{}, 4]);
    const { troubles, ...others } = witnesses;
    expect(others).toEqual({ others: null, own: { drained: false } });
    expect(troubles.map((text) => text.split(" could not be read: the control plane at ")[0]).sort()).toEqual([
      "counts of control.api",
      "gauges of control.api",
      "the ledger of control.limiter",
    ]);
  });
});
