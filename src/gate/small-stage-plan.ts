/** Plans when the two deployments of the gate's small stage are loaded: pairs of blocks, much shorter than a gate's. */
import type { CallLine } from "../history/line.ts";
import type { Piece, Profile } from "../workload/load-profiles.ts";
import { measureBlock } from "./block.ts";
import { type BlockLoad, loadFor, orderOf, partsOfBlock, profileOfBlock, type Side } from "./block-plan.ts";
import { GATE_POLICY, type GatePolicy, type Pair } from "./paired-comparison.ts";

/** Blocks of half a second hold too few calls for the other measurements. The pairs are looked at three times as they grow. */
export const SMALL_POLICY: GatePolicy = {
  ...GATE_POLICY,
  measurements: ["latency_ms_p50", "latency_ms_p99", "goodput"],
  looks: 3,
};
export const SMALL_CLAIM_IDS: readonly string[] = SMALL_POLICY.measurements.map((name) => `gate/${name}`);

/** Long enough that delays of timers and event loops on two busy cores are small beside it. */
export const SERVICE_MS = 80;
export const SLOTS = 16;
export const PAIRS = 16;
const CAPACITY_PER_S = (SLOTS * 1000) / SERVICE_MS;
const LOAD: BlockLoad = { ...loadFor(CAPACITY_PER_S), settleS: 0, lowS: 0.3, overloadS: 0.18 };
/** A rest after each block, in which most calls end before the other deployment is loaded. */
const REST_S = 0.06;
const LOAD_S = LOAD.lowS + LOAD.overloadS;
/** An answer that takes more than twice the service time is not good. */
const SLO_MS = 2 * SERVICE_MS;
/** The load before anything is measured: code is compiled, connections are made. */
const WARM_UP_S = 0.5;
const SEED = 1;

type GateBlock = { pair: number; side: Side; startS: number };

export const gateBlocks = (pairs: number): GateBlock[] =>
  Array.from({ length: pairs * 2 }, (_, at) => {
    const pair = at >> 1;
    return { pair, side: orderOf(SEED, pair)[at % 2] as Side, startS: 2 * WARM_UP_S + at * (LOAD_S + REST_S) };
  });

export const profileOf = (blocks: readonly GateBlock[], side: Side): Profile => {
  const silence = (durationS: number): Piece => ({ from: 0, to: 0, durationS });
  const warmUpS = side === "base" ? 0 : WARM_UP_S;
  const warmUp = { from: LOAD.lowPerS, to: LOAD.lowPerS, durationS: WARM_UP_S - REST_S };
  const pieces = [silence(warmUpS), warmUp];
  let atS = warmUpS + warmUp.durationS;
  for (const { startS } of blocks.filter((block) => block.side === side)) {
    pieces.push(silence(startS - atS), ...profileOfBlock(LOAD).pieces);
    atS = startS + LOAD_S;
  }
  return { name: `gate-${side}`, pieces };
};

/** Measures the blocks and joins them to pairs. `startUs`: when both loads began. */
export const pairsOf = (
  blocks: readonly GateBlock[],
  lines: Readonly<Record<Side, readonly CallLine[]>>,
  startUs: number,
): Pair[] => {
  const pairs: Partial<Pair>[] = [];
  for (const { pair, side, startS } of blocks) {
    const plan = { ...partsOfBlock(LOAD, startUs + startS * 1e6), sloMs: SLO_MS };
    pairs[pair] = { ...pairs[pair], [side]: measureBlock(lines[side], plan) };
  }
  return pairs as Pair[];
};
