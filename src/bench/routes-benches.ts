/** Calls with one answer: a read, what is refused early, a session mint. Each against a bare Fastify route. */
import { request } from "undici";
import type { BareOptions } from "./bare-process.ts";
import type { Bench, Settings } from "./bench.ts";
import { type Child, startChild } from "./child-process.ts";
import { compareLoads, type LoadSide } from "./closed-loop.ts";
import { compare, perCpuSecond, type Row, type Target } from "./comparison.ts";
import { type Deployment, ORIGIN, startDeployment } from "./deployment.ts";
import { startRedis } from "./redis-process.ts";

type RouteCall = { method: "GET" | "POST"; path: string; headers: Record<string, string>; body?: string };

/** Bare answers with the status and the bytes of the body that the platform gave. */
const againstBare = async (
  about: Pick<Row, "name" | "what"> & { target: Target | null },
  settings: Settings,
  deployment: Deployment,
  call: RouteCall,
  expected: number,
  alsoOurs?: number,
): Promise<Row[]> => {
  const { method, path, headers } = call;
  const body = call.body === undefined ? {} : { body: call.body };
  const answer = await request(deployment.url + path, { method, headers, ...body });
  const text = await answer.body.text();
  if (answer.statusCode !== expected) throw new Error(`expected ${expected}, got ${answer.statusCode}: ${text}`);
  const options: BareOptions = { kind: "fastify", method, path, status: expected, body: text };
  const bare = await startChild("bare-process.ts", options);
  try {
    const side = (server: Child, base: string): LoadSide => ({
      server,
      call: { url: base + path, method, headers, ...body },
      expected,
    });
    const pairs = await compareLoads(
      settings,
      side(deployment.api, deployment.url),
      side(bare, (bare.made as { url: string }).url),
      alsoOurs,
    );
    return [
      compare({ ...about, unit: "calls/s" }, pairs),
      compare({ ...about, name: `${about.name} by CPU`, unit: "calls/CPU s" }, perCpuSecond(pairs)),
    ];
  } finally {
    await bare.end();
  }
};

const bearer = (secret: string): Record<string, string> => ({ authorization: `Bearer ${secret}` });

const STYLES = { method: "GET", path: "/design/styles" } as const;
const TARGETS = {
  read: { atLeast: 0.75 },
  readRedis: { atLeast: 0.5 },
  shed: { atLeast: 1 },
  unauthenticated: { atLeast: 0.9 },
} as const;

const withDeployment = async (
  options: Parameters<typeof startDeployment>[0],
  run: (deployment: Deployment) => Promise<Row[]>,
): Promise<Row[]> => {
  const deployment = await startDeployment(options);
  try {
    return await run(deployment);
  } finally {
    await deployment.end();
  }
};

const read: Bench = {
  name: "read",
  what: "GET /design/styles, key cached, limiter service asked, against bare Fastify",
  run: (settings) =>
    withDeployment({}, (deployment) => {
      const call = { ...STYLES, headers: bearer(deployment.serverKey) };
      return againstBare({ ...read, target: TARGETS.read }, settings, deployment, call, 200);
    }),
};

const readRedis: Bench = {
  name: "read-redis",
  what: "the same with the limiter in Redis",
  run: async (settings) => {
    const redis = await startRedis();
    if (redis === null) return "there is no redis-server here";
    try {
      return await withDeployment({ limiter: redis.url }, (deployment) => {
        const call = { ...STYLES, headers: bearer(deployment.serverKey) };
        return againstBare({ ...readRedis, target: TARGETS.readRedis }, settings, deployment, call, 200, redis.pid);
      });
    } finally {
      await redis.end();
    }
  },
};

const shed: Bench = {
  name: "shed",
  what: "a call over the global cap (b2b_overloaded) against bare Fastify",
  run: (settings) =>
    withDeployment({}, async (deployment) => {
      await deployment.patch({ global_in_flight: 0 });
      const call = { ...STYLES, headers: bearer(deployment.serverKey) };
      return againstBare({ ...shed, target: TARGETS.shed }, settings, deployment, call, 429);
    }),
};

const unauthenticated: Bench = {
  name: "unauthenticated",
  what: "a credential that is none (401) against bare Fastify",
  run: (settings) =>
    withDeployment({}, (deployment) => {
      const call = { ...STYLES, headers: bearer("garbage") };
      return againstBare({ ...unauthenticated, target: TARGETS.unauthenticated }, settings, deployment, call, 401);
    }),
};

const mint: Bench = {
  name: "mint",
  what: "POST /sdk/sessions (chat, limiter asked) against bare Fastify with the same JSON in and out",
  run: (settings) =>
    withDeployment({}, (deployment) => {
      const headers = {
        ...bearer(deployment.publishableKey),
        origin: ORIGIN,
        "content-type": "application/json",
      };
      const call: RouteCall = { method: "POST", path: "/sdk/sessions", headers, body: '{"product":"chat"}' };
      return againstBare({ ...mint, target: null }, settings, deployment, call, 200);
    }),
};

export const ROUTE_BENCHES: readonly Bench[] = [read, readRedis, shed, unauthenticated, mint];
