/**
 * The highest rate that each generator holds against a server that answers at once, played by the `load` command. A rate
 * is held if at most a thousandth of the calls is missing and they left at 99 % of the rate or more. k6's own executor
 * drops calls; our drivers send them late.
 */
import { fileURLToPath } from "node:url";
import { routeOf } from "../contract/routes.ts";
import type { RunDocument } from "../history/run-document.ts";
import { CATALOGS } from "../workload/stories/reads.ts";
import * as bench from "./comparison.ts";
import { startServer } from "./server-process.ts";

/** The search stops once the lowest rate that failed is within this factor of the highest that held. */
const NARROW = 1.06;
const LOWEST = 10;
const HIGHEST = 200_000;

/** Returns the highest rate that holds; 0 if not even the lowest does. */
export const highestHeld = async (start: number, holds: (ratePerS: number) => Promise<boolean>): Promise<number> => {
  let low = 0;
  let high = Number.POSITIVE_INFINITY;
  let rate = start;
  while (low === 0 || high / low > NARROW) {
    if (rate < LOWEST) return 0;
    if (rate > HIGHEST) return low;
    if (await holds(Math.round(rate))) low = rate;
    else high = rate;
    if (low === 0) rate = high / 1.5;
    else if (high === Number.POSITIVE_INFINITY) rate = low * 1.5;
    else rate = Math.sqrt(low * high);
  }
  return low;
};

const SECONDS = 4;
const MISSING = 0.001;
const BEHIND = 0.01;
const ROUNDS_MAX = 3;
const PLAIN = fileURLToPath(new URL("plain-arrivals.ts", import.meta.url));

type Server = { url: string; targetFile: string };
type Generator = {
  name: string;
  startPerS: number;
  words(server: Server, ratePerS: number): string[];
  environment?(server: Server, ratePerS: number): Record<string, string>;
  isHeld(run: RunDocument, ratePerS: number): boolean;
};

const ours = (name: string, startPerS: number, ...how: string[]): Generator => ({
  name,
  startPerS,
  words: ({ targetFile }, ratePerS) => [
    ...["catalog-reads", "--arrivals", "uniform", "--target", targetFile],
    ...["--rate", `${ratePerS}`, "--duration", `${SECONDS}s`, ...how],
  ],
  isHeld: (run, ratePerS) =>
    (run.stages[0]?.by_outcome["200"] ?? 0) >= (1 - MISSING) * ratePerS * SECONDS &&
    bench.figureOf(run, "rate_error") >= -BEHIND,
});

const openLoop = ours("open-loop", 4_000, "--driver", "open-loop");
const folded = ours("open-loop, folded", 4_000, "--driver", "open-loop", "--fold");
const k6 = ours("k6, our schedule", 2_500, "--driver", "k6");
const plain: Generator = {
  name: "plain k6",
  startPerS: 2_500,
  words: () => ["--script", PLAIN],
  environment: ({ url }, ratePerS) => {
    return { FLOODGATE_URL: url, FLOODGATE_RATE: `${ratePerS}`, FLOODGATE_SECONDS: `${SECONDS}` };
  },
  isHeld: (run, ratePerS) => {
    const dropped = bench.figureOf(run, "dropped_iterations_count");
    const made = bench.figureOf(run, "http_reqs_count");
    return (Number.isNaN(dropped) ? 0 : dropped) <= MISSING * made && made >= (1 - MISSING) * ratePerS * SECONDS;
  },
};

/** Runs one block per round and generator; each search starts where the last one ended. */
const searchAll = async (all: readonly Generator[], rounds: number, room: bench.BenchRoom) => {
  await using server = await startServer(room.supervisor, { kind: "null" });
  const { url } = server.made;
  const at = { url: url + routeOf(CATALOGS[0]).path, targetFile: bench.writeTarget(room, url) };
  const holds = async (generator: Generator, ratePerS: number): Promise<boolean> => {
    const words = generator.words(at, ratePerS);
    const { document } = await bench.recordLoad(room, words, generator.environment?.(at, ratePerS));
    const isHeld = generator.isHeld(document, ratePerS);
    process.stderr.write(`  ${generator.name}: ${ratePerS}/s ${isHeld ? "held" : "not held"}\n`);
    return isHeld;
  };
  const came = all.map((generator) => ({ generator, held: [] as bench.Block[] }));
  for (let round = 0; round < Math.min(rounds, ROUNDS_MAX); round += 1) {
    for (const { generator, held } of came) {
      const startPerS = held.at(-1)?.value || generator.startPerS;
      held.push(await bench.blockOf(() => highestHeld(startPerS, (ratePerS) => holds(generator, ratePerS))));
    }
  }
  return came.map(({ held }) => held);
};

const WHAT = "calls a second that each driver holds against a server that answers at once, beside plain k6";

const row = (
  name: string,
  atLeast: number,
  held: bench.Block[] = [],
  against: bench.Block[] | number = [],
): bench.Row => bench.compare({ name, what: WHAT, unit: "calls/s", target: { atLeast } }, bench.paired(held, against));

export const generators: bench.Bench = {
  name: "generators",
  what: WHAT,
  isLong: true,
  run: async ({ rounds }, room) => {
    const [ofOpenLoop, ofFolded, ofPlain] = await searchAll([openLoop, folded, plain], rounds, room);
    return [
      row("a line each / 6,000", 1, ofOpenLoop, 6_000),
      row("folded / 14,000", 1, ofFolded, 14_000),
      row("a line each / k6", 1.5, ofOpenLoop, ofPlain),
      row("folded / k6", 1.5, ofFolded, ofPlain),
    ];
  },
};

/** A benchmark of its own, because its two searches take some minutes. */
export const k6Generators: bench.Bench = {
  name: "k6-generators",
  what: "calls a second that k6 holds on our schedule, history included, beside its own arrival-rate executor",
  isLong: true,
  run: async ({ rounds }, room) => {
    const [ofK6, ofPlain] = await searchAll([k6, plain], rounds, room);
    return [row("k6, ours / plain", 0.9, ofK6, ofPlain)];
  },
};
