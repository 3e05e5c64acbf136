/**
 * The gate's small stage in virtual time: the same plan, the same slots and the mutant's own service times. Takes milliseconds,
 * so that `npm test` can try the gate's mutants too.
 */
import { SIDES, type Side } from "../gate/block-plan.ts";
import type { Pair } from "../gate/paired-comparison.ts";
import { gateBlocks, PAIRS, pairsOf, profileOf, SERVICE_MS, SLOTS } from "../gate/small-stage-plan.ts";
import type { CallLine } from "../history/line.ts";
import { DEFAULT_INFERENCE, drawServiceMs } from "../platform/inference.ts";
import type { Parts } from "../platform/parts.ts";
import { openVirtualDeployment } from "../simulation/virtual-deployment.fixture.ts";
import { arrivalTimesUs } from "../workload/arrivals.ts";

export const virtualPairs = (base: Parts, head: Parts, seed: number): Pair[] => {
  const blocks = gateBlocks(PAIRS);
  const parts: Record<Side, Parts> = { base, head };
  const inference = { ...DEFAULT_INFERENCE, slots: SLOTS, serviceMs: SERVICE_MS };
  const lines: Record<Side, CallLine[]> = { base: [], head: [] };
  for (const side of SIDES) {
    const serviceMs = (n: number): number => parts[side].serviceMs(drawServiceMs(inference, n), n);
    const play = openVirtualDeployment({ name: side, slots: SLOTS, serviceMs });
    lines[side] = play(arrivalTimesUs(profileOf(blocks, side), "uniform", seed), seed);
  }
  return pairsOf(blocks, lines, 0);
};
