/** The search on a server whose limits are known, over real sockets: one organization, one key. */
import { afterEach, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../../client/stub-api.fixture.ts";
import { createSecrets } from "../../target/secrets.ts";
import { guardBudget, statedBudget } from "../../workload/budget.ts";
import { findLimits, type LimitsFound } from "./find-limits.ts";

const CAP = 12;
const RATE = 60;
const BURST = 40;

let stub: StubApi;
/** How long each stream took, by the server's clock. */
let tookMs: number[];
afterEach(() => stub.close());

/** A token bucket and a cap on streams; a read holds no place. A refused key stays refused until it has rested. */
const limited = async (restMs = 0): Promise<void> => {
  stub = await startStubApi();
  stub.streamMs = 400;
  tookMs = [];
  let tokens = BURST;
  let atMs = performance.now();
  let streams = 0;
  let shutUntilMs = 0;
  stub.instead = ({ path, atMs: nowMs }, res) => {
    const refuse = (code: string): true => {
      res
        .writeHead(429, { "content-type": "application/json", "retry-after": `${restMs / 1000 || 1}` })
        .end(`{"error":"${code}"}`);
      return true;
    };
    const isStream = path.includes("/chat/");
    if (isStream && streams >= CAP) return refuse("org_overloaded");
    tokens = Math.min(BURST, tokens + ((nowMs - atMs) / 1000) * RATE);
    atMs = nowMs;
    if (tokens < 1 || nowMs < shutUntilMs) {
      shutUntilMs = nowMs + restMs;
      return refuse("rate_limited");
    }
    tokens -= 1;
    if (!isStream) return false;
    streams += 1;
    const end = res.end.bind(res);
    // The place is free before the last byte is written.
    res.end = ((...args: Parameters<typeof end>) => {
      streams -= 1;
      tookMs.push(performance.now() - nowMs);
      return end(...args);
    }) as typeof res.end;
    return false;
  };
};

const search = (more: object, signal = new AbortController().signal): Promise<LimitsFound> => {
  const target = stub.target({ limits: {}, tenants: [], permits: { load_max_rps: 600 }, ...more });
  delete target.credentials?.publishable;
  const budget = guardBudget(statedBudget(target));
  return findLimits({ target, secrets: createSecrets("/"), budget, signal, onProgress: () => undefined });
};

test("a cap, a rate and a burst are found where they are", async () => {
  await limited();
  const found = await search({});
  expect(found.cutOff).toBeNull();
  expect(found.alone).toMatchObject({ met: "organization", bounds: { least: CAP, most: CAP } });
  expect(found.together).toBeNull();
  if (found.bucket?.found !== true) throw new Error(found.bucket?.code);
  const { burst, ratePerS } = found.bucket;
  expect([burst.least <= BURST, burst.most >= BURST]).toEqual([true, true]);
  expect([ratePerS.low <= RATE, ratePerS.high >= RATE]).toEqual([true, true]);
  expect(found.service?.low).toBeLessThan(Math.max(...tookMs) + 5);
});

test("a key that is refused until it has rested rests for as long as the refusal says", async () => {
  await limited(3_000);
  const found = await search({});
  expect(found.bucket?.found).toBe(false);
  expect(found.alone).toMatchObject({ met: "organization", bounds: { least: CAP, most: CAP } });
});

test("a spent budget and a stop end it, with what is known until then", async () => {
  await limited();
  const spent = await search({ budget: { requests: 8 } });
  expect(spent.cutOff).toMatch(/budget\.requests of the target file \(8\) is spent/);
  expect(stub.asked.length).toBe(8);
  const stopping = new AbortController();
  setTimeout(() => stopping.abort(), 600);
  const stopped = await search({}, stopping.signal);
  expect(stopped.cutOff).toBe("it was stopped");
  expect(stopped.alone).toBeNull();
});

test("a deployment that admits nobody is said", async () => {
  stub = await startStubApi();
  stub.instead = (_, res) => {
    res.writeHead(401, { "content-type": "application/json" }).end("{}");
    return true;
  };
  expect((await search({})).cutOff).toMatch(/a stream alone was answered 401/);
});

test("a balancer's limit that comes before the key's is named", async () => {
  stub = await startStubApi();
  stub.streamMs = 400;
  let reads = 0;
  stub.instead = ({ path }, res) => {
    reads += path.includes("/chat/") ? 0 : 1;
    if (reads <= 120) return false;
    res.writeHead(429, { "content-type": "text/html" }).end("<html></html>");
    return true;
  };
  expect(await search({})).toMatchObject({ bucket: { code: "never-refused" }, pressMet: "edge 429" });
});
