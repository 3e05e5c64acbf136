/** Calls without a stream: each against a bare Fastify route under the same closed loop, and memory over many of them. */
import { join } from "node:path";
import { request } from "undici";
import { startRedisPart } from "../deployments/part.ts";
import { median } from "../history/statistics/statistics.ts";
import { findRedis, ToolError } from "../tools/tool-recipe.ts";
import { type LoadCall, type LoadResult, playLoad } from "./closed-loop.ts";
import {
  type Bench,
  type BenchRoom,
  type Block,
  compare,
  doubtsOfClient,
  type Pair,
  plainBlock,
  playRounds,
  type Row,
  rateRows,
  type Settings,
  type Target,
  WARM_S,
  watchHost,
} from "./comparison.ts";
import { type Deployment, startDeployment } from "./deployment.ts";
import { type Server, type ServerOptions, startServer } from "./server-process.ts";

type RouteRow = {
  name: string;
  what: string;
  /** Applies to calls per second and to calls per second of the server's CPU time. */
  target: Target | null;
  expected: number;
  call: "read" | "refused" | "mintChat";
  prepare?(deployment: Deployment): Promise<unknown>;
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

const blockOfLoad = (result: LoadResult, cpuUs: number, expected: number, disturbances: string[]): Block => {
  const { byStatus, ratePerS, clientCpu } = result;
  const answers = Object.values(byStatus).reduce((sum, n) => sum + n, 0);
  const wrong = Object.keys(byStatus).filter((status) => status !== String(expected));
  const cpuUsEach = cpuUs / answers;
  const doubts = doubtsOfClient(clientCpu, (ratePerS * cpuUsEach) / 1e6);
  if (wrong.length > 0 || answers === 0) doubts.push(`expected only ${expected}, got ${wrong.join(", ") || "nothing"}`);
  return { value: ratePerS, cpuUsEach, doubts, disturbances };
};

/** The bare server answers with the status and body that the platform gave. */
const againstBare = async (
  { name, what, target, expected, ...row }: RouteRow,
  { rounds, blockS, connections }: Settings,
  { supervisor }: BenchRoom,
  limiter?: string,
): Promise<Row[]> => {
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
  const play = async (durationS: number): Promise<Pair> => {
    const disturbed = watchHost();
    const before = await cpuUs();
    const results = await playLoad({ calls, connections, durationS });
    const after = await cpuUs();
    const disturbances = disturbed();
    const [ours, against] = results.map((result, i) =>
      blockOfLoad(result, (after[i] ?? 0) - (before[i] ?? 0), expected, disturbances),
    );
    return { ours: ours as Block, against: against as Block };
  };
  await play(WARM_S);
  return rateRows({ name, what, target }, "calls", await playRounds(rounds, () => play(blockS)));
};

const benchOf = (row: RouteRow): Bench => ({
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
    const redis = await startRedisPart({ supervisor, path: found.path, ...files });
    try {
      return await againstBare(row, settings, room, redis.url);
    } finally {
      await redis.part.kill();
    }
  },
});

const MIB = 1024 * 1024;
/** Which calls are the end and which the middle, as shares of all. In the middle compilers, bounded caches and the heap are warm. */
const LAST = { from: 0.85, to: 1 };
const MIDDLE = { from: 0.35, to: 0.6 };
/** Growth from the middle to the end that still counts as none: resident memory varies with garbage collection. */
const NO_GROWTH = 1.1;

type Sample = { calls: number; rssBytes: Record<string, number> };

/** Charges go to SQLite, so the ledger grows on disk and not in memory. Calls of every kind are made in turn. */
export const soak: Bench = {
  name: "soak",
  what: "resident memory at the end of the calls against that at their middle, half of them charged",
  isLong: true,
  run: async ({ soakCalls, connections, blockS }, { supervisor, folder }) => {
    const store = `sqlite:${join(folder, "limiter.db")}`;
    await using deployment = await startDeployment(supervisor, { limiter: store });
    const { api, keys, limiter } = deployment;
    const processes = { api, keys, ...(limiter === undefined ? {} : { limiter }) };
    const { read, mintTile, load, refused } = deployment.calls;
    const samples: Sample[] = [];
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
    const within = ({ from, to }: typeof LAST, name: string): Block => {
      const inside = samples.filter(({ calls }) => calls > made * from && calls <= made * to);
      return plainBlock(median(inside.map(({ rssBytes }) => (rssBytes[name] ?? 0) / MIB)) ?? Number.NaN, { doubts });
    };
    return Object.keys(processes).map((name): Row => {
      const about = { name: `soak ${name}`, what: `${soak.what}; ${made} calls`, unit: "MiB" };
      const pair = { ours: within(LAST, name), against: within(MIDDLE, name) };
      return compare({ ...about, target: { atMost: NO_GROWTH } }, [pair]);
    });
  },
};

export const ROUTE_BENCHES: readonly Bench[] = ROWS.map(benchOf);
