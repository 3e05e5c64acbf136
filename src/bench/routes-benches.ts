/** Calls without a stream, each against a bare Fastify route under the same closed loop: a read, early refusals, a mint. */
import { join } from "node:path";
import { request } from "undici";
import { startRedisPart } from "../deployments/part.ts";
import { findRedis, ToolError } from "../tools/tool-recipe.ts";
import { type LoadCall, type LoadResult, playLoad } from "./closed-loop.ts";
import {
  type Bench,
  type BenchRoom,
  type Block,
  doubtsOfClient,
  type Pair,
  playRounds,
  type Row,
  rateRows,
  type Settings,
  type Target,
  WARM_S,
  watchHost,
} from "./comparison.ts";
import { callsOf, type Deployment, startDeployment } from "./deployment.ts";
import { type BenchChild, startBenchChild } from "./processes/child.ts";

type RouteRow = {
  name: string;
  what: string;
  /** Applies to calls per second and to calls per second of the server's CPU time. */
  target: Target | null;
  expected: number;
  call: "read" | "refused" | "mintChat";
  prepare?(deployment: Deployment): Promise<void>;
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

type Side = { server: BenchChild; call: LoadCall };

const blockOfLoad = (result: LoadResult, cpuUs: number, expected: number, disturbances: string[]): Block => {
  const answers = Object.values(result.byStatus).reduce((sum, n) => sum + n, 0);
  const wrong = Object.keys(result.byStatus).filter((status) => status !== String(expected));
  const cpuUsEach = cpuUs / answers;
  const doubts = doubtsOfClient(result.clientCpu, (result.ratePerS * cpuUsEach) / 1e6);
  if (wrong.length > 0 || answers === 0) doubts.push(`expected only ${expected}, got ${wrong.join(", ") || "nothing"}`);
  return { value: result.ratePerS, cpuUsEach, doubts, disturbances };
};

const compareLoads = async (
  { rounds, blockS, connections }: Settings,
  sides: readonly Side[],
  expected: number,
): Promise<Pair[]> => {
  const usages = () => Promise.all(sides.map(({ server }) => server.usage()));
  const play = async (durationS: number): Promise<Pair> => {
    const disturbed = watchHost();
    const before = await usages();
    const results = await playLoad({ calls: sides.map(({ call }) => call), connections, durationS });
    const after = await usages();
    const disturbances = disturbed();
    const [ours, against] = results.map((result, i) =>
      blockOfLoad(result, (after[i]?.cpuUs ?? 0) - (before[i]?.cpuUs ?? 0), expected, disturbances),
    );
    return { ours: ours as Block, against: against as Block };
  };
  await play(WARM_S);
  return await playRounds(rounds, () => play(blockS));
};

/** The bare server answers with the status and body that the platform gave. */
const againstBare = async (
  { name, what, target, expected, ...row }: RouteRow,
  settings: Settings,
  room: BenchRoom,
  limiter: string | undefined,
): Promise<Row[]> => {
  await using deployment = await startDeployment(room.supervisor, { limiter });
  await row.prepare?.(deployment);
  const { path, ...call }: Omit<LoadCall, "url"> & { path: string } = callsOf(deployment)[row.call];
  const answer = await request(deployment.url + path, call);
  const text = await answer.body.text();
  if (answer.statusCode !== expected) throw new Error(`expected ${expected}, got ${answer.statusCode}: ${text}`);
  const options = { kind: "fastify", method: call.method, path, status: expected, body: text };
  await using bare = await startBenchChild(room.supervisor, "bare-process.ts", options);
  const side = (server: BenchChild, base: string): Side => ({ server, call: { ...call, url: base + path } });
  const sides = [side(deployment.api, deployment.url), side(bare, (bare.made as { url: string }).url)];
  return rateRows({ name, what, target }, "calls", await compareLoads(settings, sides, expected));
};

const benchOf = (row: RouteRow): Bench => ({
  name: row.name,
  what: row.what,
  run: async (settings, room) => {
    if (row.isInRedis !== true) return againstBare(row, settings, room, undefined);
    const { supervisor, folder } = room;
    const found = await findRedis().catch((error: unknown) => {
      if (error instanceof ToolError) return error.message;
      throw error;
    });
    if (typeof found === "string") return found;
    const { path } = found;
    const options = { supervisor, path, folder: join(folder, "redis"), log: join(folder, "redis.log") };
    const redis = await startRedisPart(options);
    try {
      return await againstBare(row, settings, room, redis.url);
    } finally {
      await redis.part.kill();
    }
  },
});

export const ROUTE_BENCHES: readonly Bench[] = ROWS.map(benchOf);
