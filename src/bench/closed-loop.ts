/** A route of the platform against a bare Fastify route, under the same closed loop. */
import type { BenchRoom, Settings } from "./bench.ts";
import { type Block, CLIENT_SATURATED, inTurn, type Pair } from "./comparison.ts";
import { watchHost } from "./host-watch.ts";
import { type BenchChild, startBenchChild } from "./processes/child-process.ts";
import type { Load, LoadResult } from "./processes/load-process.ts";

export type LoadSide = {
  server: BenchChild;
  call: Omit<Load, "connections" | "durationS">;
  /** The status that every answer must have. */
  expected: number;
};

/** Above this share of a core a client cannot be trusted to have loaded a server that was not itself at its end. */
const SATURATED = 0.93;

const runBlock = async (
  loader: BenchChild,
  { server, call, expected }: LoadSide,
  connections: number,
  durationS: number,
): Promise<Block> => {
  const disturbed = watchHost();
  const before = await server.usage();
  const beganMs = performance.now();
  const result = (await loader.ask({ ...call, connections, durationS } satisfies Load)) as LoadResult;
  const elapsedUs = (performance.now() - beganMs) * 1000;
  const cpuUs = (await server.usage()).cpuUs - before.cpuUs;
  const disturbances = disturbed();
  const doubts: string[] = [];
  const answers = Object.values(result.byStatus).reduce((sum, n) => sum + n, 0);
  const wrong = Object.keys(result.byStatus).filter((status) => status !== String(expected));
  if (wrong.length > 0 || answers === 0) doubts.push(`expected only ${expected}, got ${wrong.join(", ") || "nothing"}`);
  if (result.clientCpu > SATURATED && cpuUs / elapsedUs < SATURATED) doubts.push(CLIENT_SATURATED);
  return { value: result.ratePerS, cpuUsEach: cpuUs / answers, doubts, disturbances };
};

/** Ends the load's process; the servers are the caller's. */
export const compareLoads = async (
  settings: Settings,
  { supervisor }: BenchRoom,
  ours: LoadSide,
  bare: LoadSide,
): Promise<Pair[]> => {
  const loader = await startBenchChild(supervisor, "load-process.ts", null);
  try {
    return await inTurn(
      settings,
      (durationS) => runBlock(loader, ours, settings.connections, durationS),
      (durationS) => runBlock(loader, bare, settings.connections, durationS),
    );
  } finally {
    await loader.end();
  }
};
