/** Calls with one answer: a read, what is refused early, a session mint. Each against a bare Fastify route. */

import { join } from "node:path";
import { request } from "undici";
import { startRedisPart } from "../deployments/part.ts";
import { findRedis } from "../tools/find-redis.ts";
import { ToolError } from "../tools/tool-recipe.ts";
import type { Bench, BenchRoom, Settings } from "./bench.ts";
import { compareLoads, type LoadSide } from "./closed-loop.ts";
import { compare, perCpuSecond, type Row, type Target } from "./comparison.ts";
import { type Deployment, ORIGIN, startDeployment } from "./deployment.ts";
import type { BareOptions } from "./processes/bare-process.ts";
import { type BenchChild, startBenchChild } from "./processes/child-process.ts";

type RouteCall = { method: "GET" | "POST"; path: string; headers: Record<string, string>; body?: string };

/** Bare answers with the status and the bytes of the body that the platform gave. */
const againstBare = async (
  about: Pick<Row, "name" | "what"> & { target: Target | null },
  settings: Settings,
  room: BenchRoom,
  deployment: Deployment,
  call: RouteCall,
  expected: number,
): Promise<Row[]> => {
  const { method, path, headers } = call;
  const body = call.body === undefined ? {} : { body: call.body };
  const answer = await request(deployment.url + path, { method, headers, ...body });
  const text = await answer.body.text();
  if (answer.statusCode !== expected) throw new Error(`expected ${expected}, got ${answer.statusCode}: ${text}`);
  const options: BareOptions = { kind: "fastify", method, path, status: expected, body: text };
  const bare = await startBenchChild(room.supervisor, "bare-process.ts", options);
  try {
    const side = (server: BenchChild, base: string): LoadSide => ({
      server,
      call: { url: base + path, method, headers, ...body },
      expected,
    });
    const pairs = await compareLoads(
      settings,
      room,
      side(deployment.api, deployment.url),
      side(bare, (bare.made as { url: string }).url),
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
  read: { atLeast: 0.55 },
  readRedis: { atLeast: 0.5 },
  shed: { atLeast: 0.85 },
  unauthenticated: { atLeast: 0.9 },
} as const;

const withDeployment = async (
  { supervisor }: BenchRoom,
  options: Parameters<typeof startDeployment>[1],
  run: (deployment: Deployment) => Promise<Row[]>,
): Promise<Row[]> => {
  const deployment = await startDeployment(supervisor, options);
  try {
    return await run(deployment);
  } finally {
    await deployment.end();
  }
};

const read: Bench = {
  name: "read",
  what: "GET /design/styles, key cached, limiter service asked, against bare Fastify",
  run: (settings, room) =>
    withDeployment(room, {}, (deployment) => {
      const call = { ...STYLES, headers: bearer(deployment.serverKey) };
      return againstBare({ ...read, target: TARGETS.read }, settings, room, deployment, call, 200);
    }),
};

const readRedis: Bench = {
  name: "read-redis",
  what: "the same with the limiter in Redis",
  run: async (settings, room) => {
    const { supervisor, folder } = room;
    const found = await findRedis().catch((error: unknown) => {
      if (error instanceof ToolError) return error.message;
      throw error;
    });
    if (typeof found === "string") return found;
    const redis = await startRedisPart({
      supervisor,
      path: found.path,
      folder: join(folder, "redis"),
      log: join(folder, "redis.log"),
    });
    try {
      return await withDeployment(room, { limiter: redis.url }, (deployment) => {
        const call = { ...STYLES, headers: bearer(deployment.serverKey) };
        return againstBare({ ...readRedis, target: TARGETS.readRedis }, settings, room, deployment, call, 200);
      });
    } finally {
      await redis.part.kill();
    }
  },
};

const shed: Bench = {
  name: "shed",
  what: "a call over the global cap (b2b_overloaded) against bare Fastify",
  run: (settings, room) =>
    withDeployment(room, {}, async (deployment) => {
      await deployment.patch({ global_in_flight: 0 });
      const call = { ...STYLES, headers: bearer(deployment.serverKey) };
      return againstBare({ ...shed, target: TARGETS.shed }, settings, room, deployment, call, 429);
    }),
};

const unauthenticated: Bench = {
  name: "unauthenticated",
  what: "a credential that is none (401) against bare Fastify",
  run: (settings, room) =>
    withDeployment(room, {}, (deployment) => {
      const call = { ...STYLES, headers: bearer("garbage") };
      return againstBare(
        { ...unauthenticated, target: TARGETS.unauthenticated },
        settings,
        room,
        deployment,
        call,
        401,
      );
    }),
};

const mint: Bench = {
  name: "mint",
  what: "POST /sdk/sessions (chat, limiter asked) against bare Fastify with the same JSON in and out",
  run: (settings, room) =>
    withDeployment(room, {}, (deployment) => {
      const headers = {
        ...bearer(deployment.publishableKey),
        origin: ORIGIN,
        "content-type": "application/json",
      };
      const call: RouteCall = { method: "POST", path: "/sdk/sessions", headers, body: '{"product":"chat"}' };
      return againstBare({ ...mint, target: null }, settings, room, deployment, call, 200);
    }),
};

export const ROUTE_BENCHES: readonly Bench[] = [read, readRedis, shed, unauthenticated, mint];
