/**
 * The gate's stage on a model of a deployment with the noise of a busy machine: the same blocks, the same slots and the
 * mutant's own service times. Takes milliseconds, so that many noises can be tried.
 */
import type { Side } from "../gate/block-plan.ts";
import type { Pair } from "../gate/paired-comparison.ts";
import type { CallLine } from "../history/line.ts";
import { known } from "../history/statistics/statistics.ts";
import { DEFAULT_INFERENCE, drawServiceMs } from "../platform/inference.ts";
import { HEALTHY, type Parts } from "../platform/parts.ts";
import { openVirtualDeployment } from "../simulation/virtual-deployment.fixture.ts";
import { arrivalTimesUs } from "../workload/load-profiles.ts";
import { GATE_BLOCKS, pairsOf, SERVICE_MS, SLOTS } from "./stages/curve.ts";

const playBlocks = (name: Side, parts: Parts, seed: number): CallLine[] => {
  const inference = { ...DEFAULT_INFERENCE, slots: SLOTS, serviceMs: SERVICE_MS };
  const serviceMs = (n: number): number => parts.serviceMs(drawServiceMs(inference, n), n);
  const play = openVirtualDeployment({ name, slots: SLOTS, serviceMs });
  return play(arrivalTimesUs(GATE_BLOCKS, "uniform", seed), seed);
};

/** The healthy base's calls by seed, which lie beside every head. */
const bases = new Map<number, CallLine[]>();

/** A head beside the healthy platform. */
export const virtualPairs = (head: Parts, seed: number): Pair[] =>
  pairsOf({
    base: known(bases, seed, () => playBlocks("base", HEALTHY, seed)),
    head: playBlocks("head", head, seed),
  });
