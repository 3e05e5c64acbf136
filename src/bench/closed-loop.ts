/** A route of the platform against a bare Fastify route, under the same closed loop. */
import type { BenchRoom, Settings } from "./bench.ts";
import { type Block, doubtsOfClient, type Pair, playRounds, WARM_S } from "./comparison.ts";
import { watchHost } from "./host-watch.ts";
import { type BenchChild, startBenchChild } from "./processes/child-process.ts";
import type { Load, LoadCall, LoadResult } from "./processes/load-process.ts";

export type LoadSide = {
  server: BenchChild;
  call: LoadCall;
  /** The status that every answer must have. */
  expected: number;
};

const blockOf = (result: LoadResult, cpuUs: number, expected: number, disturbances: string[]): Block => {
  const answers = Object.values(result.byStatus).reduce((sum, n) => sum + n, 0);
  const wrong = Object.keys(result.byStatus).filter((status) => status !== String(expected));
  const cpuUsEach = cpuUs / answers;
  const doubts = doubtsOfClient(result.clientCpu, (result.ratePerS * cpuUsEach) / 1e6);
  if (wrong.length > 0 || answers === 0) doubts.push(`expected only ${expected}, got ${wrong.join(", ") || "nothing"}`);
  return { value: result.ratePerS, cpuUsEach, doubts, disturbances };
};

/** Ends the load's process; the servers are the caller's. */
export const compareLoads = async (
  { rounds, blockS, connections }: Settings,
  { supervisor }: BenchRoom,
  ours: LoadSide,
  bare: LoadSide,
): Promise<Pair[]> => {
  const loader = await startBenchChild(supervisor, "load-process.ts", null);
  const sides = [ours, bare];
  const cpuOfSides = async (): Promise<number[]> => {
    const usages = await Promise.all(sides.map(({ server }) => server.usage()));
    return usages.map(({ cpuUs }) => cpuUs);
  };
  const play = async (durationS: number): Promise<Pair> => {
    const disturbed = watchHost();
    const before = await cpuOfSides();
    const load: Load = { calls: sides.map(({ call }) => call), connections, durationS };
    const results = (await loader.ask(load)) as LoadResult[];
    const after = await cpuOfSides();
    const disturbances = disturbed();
    const [first, second] = results.map((result, i) =>
      blockOf(result, (after[i] as number) - (before[i] as number), (sides[i] as LoadSide).expected, disturbances),
    );
    return { ours: first as Block, against: second as Block };
  };
  try {
    await play(WARM_S);
    return await playRounds(rounds, () => play(blockS));
  } finally {
    await loader.end();
  }
};
