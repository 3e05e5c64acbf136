/**
 * The gate's small stage in virtual time: the same plan, the same slots, the mutant's own service times, and a seeded noise like
 * a shared machine's in place of sockets. Takes milliseconds, so that `npm test` can try the gate's mutants too.
 */

import { SIDES, type Side } from "../gate/block-plan.ts";
import { gateBlocks, PAIRS, pairsOf, profileOf, SERVICE_MS, SLOTS } from "../gate/pair-plan.ts";
import type { Pair } from "../gate/paired-comparison.ts";
import type { CallLine } from "../history/line.ts";
import { DEFAULT_INFERENCE, drawServiceMs } from "../platform/inference.ts";
import type { Parts } from "../platform/parts.ts";
import { arrivalTimesUs } from "../workload/arrivals.ts";
import { exponential, saltOf, uniform } from "../workload/random.ts";

/** What a call takes beside the inference, on average, and now and then. */
const OVERHEAD_MS = 2;
const HICCUP_MS = 15;
const HICCUP_SHARE = 0.01;

const overheadMs = (seed: number, n: number, side: Side): number => {
  const hiccup = uniform(seed, n, saltOf(`hiccup ${side}`)) < HICCUP_SHARE ? HICCUP_MS : 0;
  return (OVERHEAD_MS + hiccup) * exponential(seed, n, saltOf(`overhead ${side}`));
};

/** Calls find a slot or are shed, as by the fixed shedder with no queue. */
const linesOf = ({ serviceMs }: Parts, side: Side, arrivals: readonly number[], seed: number): CallLine[] => {
  const inference = { ...DEFAULT_INFERENCE, slots: SLOTS, serviceMs: SERVICE_MS };
  let running: number[] = [];
  let served = 0;
  return arrivals.map((atUs, n) => {
    running = running.filter((endUs) => endUs > atUs);
    const shed = running.length >= SLOTS;
    const tookMs = shed ? 0 : serviceMs(drawServiceMs(inference, served), served);
    const doneUs = Math.round(atUs + (tookMs + overheadMs(seed, n, side)) * 1000);
    if (!shed) {
      served += 1;
      running.push(doneUs);
    }
    return {
      ...{ type: "call", id: `${side}-${n}`, stage: "gate", driver: "virtual", org: "org_t1", route: "chat.control" },
      ...{ intended_us: atUs, sent_us: atUs, first_us: null, done_us: doneUs, clock_error_us: 0 },
      outcome: shed ? "429 b2b_overloaded" : "200",
    };
  });
};

export const virtualPairs = (base: Parts, head: Parts, seed: number): Pair[] => {
  const blocks = gateBlocks(PAIRS);
  const parts: Record<Side, Parts> = { base, head };
  const [baseLines, headLines] = SIDES.map((side) =>
    linesOf(parts[side], side, arrivalTimesUs(profileOf(blocks, side), "uniform", seed), seed),
  ) as [CallLine[], CallLine[]];
  return pairsOf(blocks, { base: baseLines, head: headLines }, 0);
};
