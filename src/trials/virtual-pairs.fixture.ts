/**
 * The gate's stage on a model of a deployment with the noise of a busy machine: the same blocks, the same slots and the
 * mutant's own service times. Takes milliseconds, so that many noises can be tried.
 */
import { SIDES, type Side } from "../gate/block-plan.ts";
import type { Pair } from "../gate/paired-comparison.ts";
import type { CallLine } from "../history/line.ts";
import { DEFAULT_INFERENCE, drawServiceMs } from "../platform/inference.ts";
import type { Parts } from "../platform/parts.ts";
import { openVirtualDeployment } from "../simulation/virtual-deployment.fixture.ts";
import { arrivalTimesUs } from "../workload/load-profiles.ts";
import { GATE_BLOCKS, pairsOf, SERVICE_MS, SLOTS } from "./stages/curve.ts";

export const virtualPairs = (base: Parts, head: Parts, seed: number): Pair[] => {
  const parts: Record<Side, Parts> = { base, head };
  const inference = { ...DEFAULT_INFERENCE, slots: SLOTS, serviceMs: SERVICE_MS };
  const lines: Record<Side, CallLine[]> = { base: [], head: [] };
  for (const side of SIDES) {
    const serviceMs = (n: number): number => parts[side].serviceMs(drawServiceMs(inference, n), n);
    const play = openVirtualDeployment({ name: side, slots: SLOTS, serviceMs });
    lines[side] = play(arrivalTimesUs(GATE_BLOCKS, "uniform", seed), seed);
  }
  return pairsOf(lines);
};
