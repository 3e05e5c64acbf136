/**
 * The highest rate that each generator holds against a server that answers at once, played by `load` as users play it.
 * Held: at most a thousandth of the calls is missing, and they left at 99 % of the rate or more. k6's own executor
 * drops calls; our drivers send them late.
 */

import { fileURLToPath } from "node:url";
import { routeOf } from "../contract/routes.ts";
import type { RunDocument } from "../history/run-document.ts";
import { CATALOGS } from "../workload/stories/reads.ts";
import {
  type Bench,
  type BenchRoom,
  type Block,
  compare,
  type Pair,
  plainBlock,
  type Row,
  watchHost,
} from "./comparison.ts";
import { figureOf, runLoad, writeTarget } from "./load-run.ts";
import { startBenchChild } from "./processes/child.ts";

/** A result is so near to the rate that does not hold any more. */
const NARROW = 1.06;
const LOWEST = 10;
const HIGHEST = 200_000;

/** 0: not even the lowest rate holds. */
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

const ourWords = ({ targetFile }: Server, ratePerS: number): string[] => [
  ...["catalog-reads", "--arrivals", "uniform", "--target", targetFile],
  ...["--rate", String(ratePerS), "--duration", `${SECONDS}s`],
];

const isHeldByOurs = (run: RunDocument, ratePerS: number): boolean => {
  const answered = run.stages[0]?.by_outcome["200"] ?? 0;
  return answered >= (1 - MISSING) * ratePerS * SECONDS && figureOf(run, "rate_error") >= -BEHIND;
};

const openLoop: Generator = {
  name: "open-loop",
  startPerS: 4_000,
  words: (server, ratePerS) => [...ourWords(server, ratePerS), "--driver", "open-loop"],
  isHeld: isHeldByOurs,
};

const folded: Generator = {
  ...openLoop,
  name: "open-loop, folded",
  words: (server, ratePerS) => [...openLoop.words(server, ratePerS), "--fold"],
};

const k6: Generator = {
  name: "k6, our schedule",
  startPerS: 2_500,
  words: (server, ratePerS) => [...ourWords(server, ratePerS), "--driver", "k6"],
  isHeld: isHeldByOurs,
};

const plain: Generator = {
  name: "plain k6",
  startPerS: 2_500,
  words: () => ["--script", PLAIN],
  environment: ({ url }, ratePerS) => ({
    FLOODGATE_URL: url,
    FLOODGATE_RATE: String(ratePerS),
    FLOODGATE_SECONDS: String(SECONDS),
  }),
  isHeld: (run, ratePerS) => {
    const dropped = figureOf(run, "dropped_iterations_count");
    const made = figureOf(run, "http_reqs_count");
    return (Number.isNaN(dropped) ? 0 : dropped) <= MISSING * made && made >= (1 - MISSING) * ratePerS * SECONDS;
  },
};

const ceilingOf = async (room: BenchRoom, generator: Generator, at: Server, startPerS: number): Promise<Block> => {
  const disturbed = watchHost();
  const value = await highestHeld(startPerS, async (ratePerS) => {
    const run = await runLoad(room, generator.words(at, ratePerS), generator.environment?.(at, ratePerS));
    const isHeld = generator.isHeld(run, ratePerS);
    process.stderr.write(`  ${generator.name}: ${ratePerS}/s ${isHeld ? "held" : "not held"}\n`);
    return isHeld;
  });
  return plainBlock(value, { disturbances: disturbed() });
};

type Held = Map<Generator, Block[]>;

const searchAll = async (all: readonly Generator[], rounds: number, room: BenchRoom): Promise<Held> => {
  await using server = await startBenchChild(room.supervisor, "bare-process.ts", { kind: "null" });
  const { url } = server.made as { url: string };
  const at = { url: url + routeOf(CATALOGS[0]).path, targetFile: writeTarget(room, url) };
  const came: Held = new Map(all.map((generator) => [generator, []]));
  for (let round = 0; round < Math.min(rounds, ROUNDS_MAX); round += 1) {
    for (const [generator, blocks] of came) {
      const startPerS = blocks.at(-1)?.value || generator.startPerS;
      blocks.push(await ceilingOf(room, generator, at, startPerS));
    }
  }
  return came;
};

const WHAT = "calls a second that each driver holds against a server that answers at once, beside plain k6";

const row = (name: string, atLeast: number, came: Held, ours: Generator, against: Generator | number): Row => {
  const pairs: Pair[] = (came.get(ours) ?? []).map((block, i) => ({
    ours: block,
    against: typeof against === "number" ? plainBlock(against) : (came.get(against)?.[i] as Block),
  }));
  return compare({ name, what: WHAT, unit: "calls/s", target: { atLeast } }, pairs);
};

export const generators: Bench = {
  name: "generators",
  what: WHAT,
  isLong: true,
  run: async ({ rounds }, room) => {
    const came = await searchAll([openLoop, folded, plain], rounds, room);
    return [
      row("a line each / 6,000", 1, came, openLoop, 6_000),
      row("folded / 14,000", 1, came, folded, 14_000),
      row("a line each / k6", 1.5, came, openLoop, plain),
      row("folded / k6", 1.5, came, folded, plain),
    ];
  },
};

/** By itself, because its two searches take some minutes. */
export const k6Generators: Bench = {
  name: "k6-generators",
  what: "calls a second that k6 holds on our schedule, history included, beside its own arrival-rate executor",
  isLong: true,
  run: async ({ rounds }, room) => {
    const came = await searchAll([k6, plain], rounds, room);
    return [row("k6, ours / plain", 0.9, came, k6, plain)];
  },
};
