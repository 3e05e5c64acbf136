/**
 * Calls without a stream, each against a bare Fastify route under the same closed loop, and memory over many of them; streams
 * against a bare server.
 */

import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { request } from "undici";
import { controlSend, knowControlToken } from "../client/control-planes.ts";
import { routeOf } from "../contract/routes.ts";
import { startRedisPart } from "../deployments/deployment.ts";
import { loadTenants, seedNow, sendSeed } from "../deployments/tenants.ts";
import { median } from "../history/statistics/statistics.ts";
import type { Role, RoleOptions, Urls } from "../platform/start-role.ts";
import { makeToken } from "../supervision/private-file.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import { pause } from "../supervision/waiting.ts";
import { findRedis, ToolError } from "../tools/tool-recipe.ts";
import { type LoadCall, type LoadResult, playLoad } from "./closed-loop.ts";
import * as bench from "./comparison.ts";
import { type Server, type ServerOptions, startServer } from "./server-process.ts";

type DeploymentOptions = {
  /** Store of the limiter service, or `redis://…`. */
  limiter?: string | undefined;
  api?: RoleOptions;
  nodeArguments?: readonly string[];
};

/** High enough to refuse nothing; the limiter decides every call all the same. */
const RATE = { perS: 1e9, burst: 1e9 };
const CAP = 1_000_000;

/** The processes end in reverse order, as soon as one could not be started. */
const startDeployment = async (
  supervisor: Supervisor,
  { limiter: store = "memory", api: ofApi, nodeArguments }: DeploymentOptions = {},
) => {
  await using started = new AsyncDisposableStack();
  const controlToken = makeToken();
  const secrets = { sessionSecret: makeToken(), adminSecret: makeToken() };
  const start = async (role: Role, asked: RoleOptions, more?: readonly string[]): Promise<Server<Urls>> => {
    const options = { controlPort: 0, controlToken, ...secrets, ...asked };
    const server = started.use(await startServer<Urls>(supervisor, { kind: "role", role, options }, more));
    for (const url of Object.values(server.made.control ?? {})) knowControlToken(url, controlToken);
    return server;
  };
  const limiter = store.startsWith("redis:") ? undefined : await start("limiter", { limiter: store });
  const links = { limiter: limiter?.made.limiter ?? store };
  const keys = await start("keys", { keys: "memory", ...links });
  const caps = { rateLimit: RATE, globalInFlight: CAP, orgInFlight: CAP };
  const api = await start("api", { keys: keys.made.keys as string, ...links, ...caps, ...ofApi }, nodeArguments);
  const seed = seedNow(loadTenants(1), secrets.adminSecret);
  await sendSeed(keys.made.control?.keys as string, seed);
  const [tenant] = seed.target.tenants;
  const processes = started.move();
  return {
    api,
    limiter,
    keys,
    calls: callsOf(api.made.api as string, tenant?.server?.key ?? "", tenant?.publishable.key ?? ""),
    patch: (body: Record<string, unknown>) => controlSend("PATCH", `${api.made.control?.api}/deployment`, body),
    [Symbol.asyncDispose]: () => processes.disposeAsync(),
  };
};

/** A call of every kind that is measured, by a full-scope server key and a full-scope publishable key. */
const callsOf = (url: string, serverKey: string, publishableKey: string) => {
  const by = (secret: string, more = {}) => ({ authorization: `Bearer ${secret}`, ...more });
  const read = (secret: string) => ({ method: "GET", url: `${url}/design/styles`, headers: by(secret) }) as const;
  const json = { "content-type": "application/json" };
  const mint = { url: `${url}/sdk/sessions`, headers: by(publishableKey, { origin: "https://app.example", ...json }) };
  return {
    read: read(serverKey),
    refused: read("garbage"),
    mintChat: { method: "POST", ...mint, body: '{"product":"chat"}' },
    mintTile: { method: "POST", ...mint, body: '{"product":"tile"}' },
    load: { method: "POST", url: `${url}/maps/loads`, headers: by(serverKey, json), body: "{}" },
    stream: {
      ...{ method: "POST", url: url + routeOf("chat.control").path, headers: by(serverKey, json) },
      body: JSON.stringify({ messages: [{ role: "user", content: "where is the station?" }] }),
    },
  } satisfies Record<string, LoadCall>;
};

type RouteRow = {
  name: string;
  what: string;
  /** Applies to calls per second and to calls per second of the server's CPU time. */
  target: bench.Target | null;
  expected: number;
  call: "read" | "refused" | "mintChat";
  prepare?(deployment: Awaited<ReturnType<typeof startDeployment>>): Promise<unknown>;
  isInRedis?: true;
};

const FASTIFY = "against bare Fastify";

// biome-ignore format: a row is a line
const ROWS: readonly RouteRow[] = [
  { name: "read", what: `GET /design/styles, key cached, limiter service asked, ${FASTIFY}`, target: { atLeast: 0.55 }, expected: 200, call: "read" },
  { name: "read-redis", what: "the same with the limiter in Redis", target: { atLeast: 0.5 }, expected: 200, call: "read", isInRedis: true },
  { name: "shed", what: `a call over the global cap (b2b_overloaded) ${FASTIFY}`, target: { atLeast: 0.85 }, expected: 429, call: "read", prepare: (deployment) => deployment.patch({ global_in_flight: 0 }) },
  { name: "unauthenticated", what: `a credential that is none (401) ${FASTIFY}`, target: { atLeast: 0.9 }, expected: 401, call: "refused" },
  { name: "mint", what: `POST /sdk/sessions (chat, limiter asked) ${FASTIFY} with the same JSON in and out`, target: null, expected: 200, call: "mintChat" },
];

const blockOfLoad = (result: LoadResult, cpuUs: number, expected: number, disturbances: string[]): bench.Block => {
  const { byStatus, ratePerS, clientCpu } = result;
  const answers = Object.values(byStatus).reduce((sum, n) => sum + n, 0);
  const wrong = Object.keys(byStatus).filter((status) => status !== String(expected));
  const cpuUsEach = cpuUs / answers;
  const doubts = bench.doubtsOfClient(clientCpu, (ratePerS * cpuUsEach) / 1e6);
  if (wrong.length > 0 || answers === 0) doubts.push(`expected only ${expected}, got ${wrong.join(", ") || "nothing"}`);
  return { value: ratePerS, cpuUsEach, doubts, disturbances };
};

/** The bare server answers with the status and body that the platform gave. */
const againstBare = async (
  { name, what, target, expected, ...row }: RouteRow,
  { rounds, blockS, connections }: bench.Settings,
  { supervisor }: bench.BenchRoom,
  limiter?: string,
): Promise<bench.Row[]> => {
  await using deployment = await startDeployment(supervisor, { limiter });
  await row.prepare?.(deployment);
  const { url, ...call }: LoadCall = deployment.calls[row.call];
  const answer = await request(url, call);
  const body = await answer.body.text();
  if (answer.statusCode !== expected) throw new Error(`expected ${expected}, got ${answer.statusCode}: ${body}`);
  const { pathname: path } = new URL(url);
  const options: ServerOptions = { kind: "fastify", method: call.method, path, status: expected, body };
  await using bare = await startServer(supervisor, options);
  const calls = [url, bare.made.url + path].map((one) => ({ ...call, url: one }));
  const cpuUs = (): Promise<number[]> =>
    Promise.all([deployment.api, bare].map(async (server: Server<unknown>) => (await server.usage()).cpuUs));
  const play = async (durationS: number): Promise<bench.Pair> => {
    const disturbed = bench.watchHost();
    const before = await cpuUs();
    const results = await playLoad({ calls, connections, durationS });
    const after = await cpuUs();
    const disturbances = disturbed();
    const [ours, against] = results.map((result, i) =>
      blockOfLoad(result, (after[i] ?? 0) - (before[i] ?? 0), expected, disturbances),
    );
    return { ours: ours as bench.Block, against: against as bench.Block };
  };
  await play(bench.WARM_S);
  return bench.rateRows({ name, what, target }, "calls", await bench.playRounds(rounds, () => play(blockS)));
};

const benchOf = (row: RouteRow): bench.Bench => ({
  name: row.name,
  what: row.what,
  run: async (settings, room) => {
    if (row.isInRedis !== true) return againstBare(row, settings, room);
    const { supervisor, folder } = room;
    const found = await findRedis().catch((error: unknown) => {
      if (error instanceof ToolError) return error.message;
      throw error;
    });
    if (typeof found === "string") return found;
    const files = { folder: join(folder, "redis"), log: join(folder, "redis.log") };
    await using atEnd = new AsyncDisposableStack();
    const { url, part } = await startRedisPart({ supervisor, path: found.path, ...files });
    atEnd.defer(part.kill);
    return await againstBare(row, settings, room, url);
  },
});

const MIB = 1024 * 1024;
/** Which calls are the end and which the middle, as shares of all. In the middle compilers, bounded caches and the heap are warm. */
const LAST = { from: 0.85, to: 1 };
const MIDDLE = { from: 0.35, to: 0.6 };
/** Growth from the middle to the end that still counts as none: resident memory varies with garbage collection. */
const NO_GROWTH = 1.1;

/** Charges go to SQLite, so the ledger grows on disk and not in memory. Calls of every kind are made in turn. */
export const soak: bench.Bench = {
  name: "soak",
  what: "resident memory at the end of the calls against that at their middle, half of them charged",
  isLong: true,
  run: async ({ soakCalls, connections, blockS }, { supervisor, folder }) => {
    const store = `sqlite:${join(folder, "limiter.db")}`;
    await using deployment = await startDeployment(supervisor, { limiter: store });
    const { api, keys, limiter } = deployment;
    const processes = { api, keys, ...(limiter === undefined ? {} : { limiter }) };
    const { read, mintTile, load, refused } = deployment.calls;
    const samples: { calls: number; rssBytes: Record<string, number> }[] = [];
    let failed = 0;
    let made = 0;
    while (made < soakCalls) {
      for (const { byStatus } of await playLoad({
        calls: [read, mintTile, load, refused],
        connections,
        durationS: blockS,
      })) {
        for (const [status, n] of Object.entries(byStatus)) {
          made += n;
          if (status !== "200" && status !== "401") failed += n;
        }
      }
      const rssBytes: Record<string, number> = {};
      for (const [name, server] of Object.entries(processes)) rssBytes[name] = (await server.usage()).rssBytes;
      samples.push({ calls: made, rssBytes });
    }
    const doubts = failed === 0 ? [] : [`${failed} calls were not answered as expected`];
    const within = ({ from, to }: typeof LAST, name: string): bench.Block => {
      const inside = samples.filter(({ calls }) => calls > made * from && calls <= made * to);
      return bench.plainBlock(median(inside.map(({ rssBytes }) => (rssBytes[name] ?? 0) / MIB)) ?? Number.NaN, {
        doubts,
      });
    };
    return Object.keys(processes).map((name): bench.Row => {
      const about = { name: `soak ${name}`, what: `${soak.what}; ${made} calls`, unit: "MiB" };
      const pair = { ours: within(LAST, name), against: within(MIDDLE, name) };
      return bench.compare({ ...about, target: { atMost: NO_GROWTH } }, [pair]);
    });
  },
};

export const ROUTE_BENCHES: readonly bench.Bench[] = ROWS.map(benchOf);

// Events a second, and memory per stream, against a bare `node:http` server that writes the same frames when due.

const BEGIN_MS = 20_000;
const CLOSE_MS = 50;
const BLANK_LINE = "\n\n";
const LAST_CHUNK = Buffer.from("\r\n0\r\n\r\n");
const OK = Buffer.from("HTTP/1.1 200 ");

const headOf = ({ url, method, headers, body = "" }: LoadCall): string => {
  const { host, pathname } = new URL(url);
  const lines = Object.entries({ host, ...headers, "content-length": String(Buffer.byteLength(body)) });
  return `${method} ${pathname} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`;
};

/**
 * Counts the events of many open streams over raw sockets, which costs next to nothing. Each connection requests a stream, counts
 * the blank lines that end its events, and requests the next stream when it ends. Connections open over `rampMs`. Resolves once
 * every stream has begun or failed, at the latest 20 s after the ramp.
 */
export const openStreams = async (request: LoadCall, streams: number, rampMs: number) => {
  const { hostname: host, port } = new URL(request.url);
  const head = headOf(request);
  const sockets: Socket[] = [];
  let isClosing = false;
  /** `refused`: answers other than a stream; `lost`: lost connections. */
  const seen = { begun: 0, events: 0, ended: 0, refused: 0, lost: 0 };

  const open = (): void => {
    const socket = connect({ host, port: Number(port), noDelay: true });
    sockets.push(socket);
    let isNew = true;
    let hasBegun = false;
    socket.on("connect", () => socket.write(head));
    socket.on("data", (data: Buffer) => {
      if (isNew) {
        isNew = false;
        if (!data.subarray(0, OK.length).equals(OK)) {
          seen.refused += 1;
          socket.destroy();
          return;
        }
        if (!hasBegun) seen.begun += 1;
        hasBegun = true;
      }
      for (let at = data.indexOf(BLANK_LINE); at !== -1; at = data.indexOf(BLANK_LINE, at + 2)) seen.events += 1;
      if (data.length >= LAST_CHUNK.length && data.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)) {
        seen.ended += 1;
        isNew = true;
        socket.write(head);
      }
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      if (!isClosing) seen.lost += 1;
    });
  };

  const beganMs = performance.now();
  while (sockets.length < streams) {
    const due = rampMs === 0 ? streams : Math.ceil(((performance.now() - beganMs) / rampMs) * streams);
    while (sockets.length < Math.min(due, streams)) open();
    await pause(1);
  }
  const known = (): number => seen.begun + seen.refused + seen.lost;
  while (known() < streams && performance.now() - beganMs < rampMs + BEGIN_MS) await pause(5);
  return {
    seen,
    /** `clientCpu`: share of a core that this process used. */
    count: async (durationMs: number): Promise<{ eventsPerS: number; clientCpu: number }> => {
      const before = seen.events;
      const cpu = process.cpuUsage();
      const fromMs = performance.now();
      await pause(durationMs);
      const elapsedS = (performance.now() - fromMs) / 1000;
      const { user, system } = process.cpuUsage(cpu);
      return { eventsPerS: (seen.events - before) / elapsedS, clientCpu: (user + system) / 1e6 / elapsedS };
    },
    [Symbol.asyncDispose]: (): Promise<void> => {
      isClosing = true;
      for (const socket of sockets) socket.destroy();
      return pause(CLOSE_MS);
    },
  };
};

const STREAMS = 1_000;
/** Streams open over this time, so that their phases are spread. */
const RAMP_MS = 1_000;
/** Memory is measured this long after the streams opened, when the garbage of opening has been collected. */
const SETTLE_MS = 1_500;
/** Flowing: 51,000 events a second in all, so that no process is saturated and every event is a write of its own. */
const PACE = { flowing: { tokens: 100, serviceMs: 2_000 }, held: { tokens: 20, serviceMs: 300_000 } };
type Pace = (typeof PACE)["held"];

type Side = AsyncDisposable & { server: Server<unknown>; call: LoadCall };

const startOurs = async (
  { supervisor }: bench.BenchRoom,
  { tokens, serviceMs }: Pace,
  nodeArguments: readonly string[] = [],
) => {
  const api = { inference: { slots: 1_000_000, tokens, serviceMs }, streamLimits: { keepAliveMs: 600_000 } };
  const deployment = await startDeployment(supervisor, { api, nodeArguments });
  return { ...deployment, server: deployment.api, call: deployment.calls.stream };
};

/** Starts the bare server, with the frames that the platform sends, taken from one quick stream. */
const bareStarter = async (room: bench.BenchRoom, { tokens, serviceMs: durationMs }: Pace) => {
  await using ours = await startOurs(room, { tokens, serviceMs: 10 });
  const { url, ...call } = ours.call;
  const answer = await request(url, call);
  const frames = (await answer.body.text()).split(/(?<=\n\n)/);
  if (frames.length < tokens) throw new Error(`expected at least ${tokens} events, got ${frames.length}`);
  const headers = ["Content-Type", "text/event-stream", "Cache-Control", "no-store", "X-Accel-Buffering", "no"];
  return async (nodeArguments: readonly string[] = []): Promise<Side> => {
    const options = { kind: "streams", headers, frames, durationMs } as const;
    const server = await startServer(room.supervisor, options, nodeArguments);
    const own = {
      ...call,
      url: server.made.url + new URL(url).pathname,
      headers: { "content-type": "application/json" },
    };
    return { ...server, server, call: own };
  };
};

const countEvents = async ({ server, call }: Side, durationMs: number): Promise<bench.Block> => {
  await using streams = await openStreams(call, STREAMS, RAMP_MS);
  const { begun } = streams.seen;
  const disturbed = bench.watchHost();
  const before = await server.usage();
  const beganMs = performance.now();
  const { eventsPerS, clientCpu } = await streams.count(durationMs);
  const elapsedUs = (performance.now() - beganMs) * 1000;
  const cpuUs = (await server.usage()).cpuUs - before.cpuUs;
  const disturbances = disturbed();
  const doubts = bench.doubtsOfClient(clientCpu, cpuUs / elapsedUs);
  if (begun < STREAMS || streams.seen.refused + streams.seen.lost > 0) doubts.push("streams were refused or lost");
  return { value: eventsPerS, cpuUsEach: cpuUs / ((eventsPerS * elapsedUs) / 1e6), doubts, disturbances };
};

const events: bench.Bench = {
  name: "events",
  what: `events a second, and for a second of CPU time, over ${STREAMS} streams against bare node:http at the same pace`,
  run: async (settings, room) => {
    const startBare = await bareStarter(room, PACE.flowing);
    await using ours = await startOurs(room, PACE.flowing);
    await using bare = await startBare();
    const blockOf = (side: Side) => (durationS: number) => countEvents(side, durationS * 1_000);
    const pairs = await bench.inTurn(settings, blockOf(ours), blockOf(bare));
    return bench.rateRows({ name: events.name, what: events.what, target: { atLeast: 0.8 } }, "events", pairs);
  },
};

/** Measures KiB of resident memory per open stream, in a new server that has had a few streams before. */
const weighStream = async (start: () => Promise<Side>): Promise<bench.Block> => {
  await using side = await start();
  const weigh = async (): Promise<number> => {
    await pause(SETTLE_MS);
    return (await side.server.usage()).rssBytes;
  };
  {
    await using _before = await openStreams(side.call, STREAMS / 5, 100);
  }
  const before = await weigh();
  await using _weighed = await openStreams(side.call, STREAMS, 300);
  return bench.plainBlock(((await weigh()) - before) / STREAMS / 1024);
};

const memory: bench.Bench = {
  name: "stream-memory",
  what: `resident memory that each of ${STREAMS} open streams adds, against bare node:http`,
  run: async ({ rounds, blockS }, room) => {
    const withGc = ["--expose-gc"];
    const startBare = await bareStarter(room, PACE.held);
    const pairs = await bench.inTurn(
      { rounds: Math.ceil(rounds / 3), blockS, warmS: 0 },
      () => weighStream(() => startOurs(room, PACE.held, withGc)),
      () => weighStream(() => startBare(withGc)),
    );
    return [bench.compare({ ...memory, unit: "KiB/stream", target: { atMost: 1.3 } }, pairs)];
  },
};

export const STREAM_BENCHES: readonly bench.Bench[] = [events, memory];
