/**
 * Measures pairs of blocks until the comparison decides. It compares at fixed numbers of pairs, and measures more only
 * while something is open.
 */
import { type BlockValues, isWhole, knowsLastEvent, measureBlock } from "../../gate/block.ts";
import { type BlockLoad, orderOf, partsOfBlock, type Side } from "../../gate/block-plan.ts";
import { type BlockFinding, brokenOnHeadAlone } from "../../gate/broken-invariants.ts";
import {
  type Comparison,
  comparePairs,
  GATE_POLICY,
  type GatePolicy,
  type Pair,
  verdictOf,
} from "../../gate/paired-comparison.ts";
import type { CallLine } from "../../history/line.ts";
import type { Claim } from "../../history/run-document.ts";
import { quantile } from "../../history/statistics/statistics.ts";

export type Played = {
  lines: readonly CallLine[];
  startUs: number;
  claims: readonly Claim[];
  problems: readonly string[];
};

export type GateMeasured = {
  pairs: Pair[];
  findings: BlockFinding[];
  comparisons: Comparison[];
  policy: GatePolicy;
  /** Pairs that the generator could not play as planned, and are not compared: why, a sentence each. */
  dropped: string[];
  /** False when it was stopped before the first look. */
  isWhole: boolean;
};

type GatePairsPlan = {
  seed: number;
  load: BlockLoad;
  looks: readonly number[];
  sloMs: number;
  noisy: Readonly<Record<Side, ReadonlySet<string>>>;
  play(side: Side, pair: number): Promise<Played>;
  onPair?(pair: number, of: number): void;
  onLook?(comparisons: readonly Comparison[], pairs: number, next: number | null): void;
  isOver(): boolean;
};

const SLO_OF_LOW = 2;
const SLO_OF_OVERLOAD = 1.25;

/**
 * Up to when an answer counts as good, in milliseconds: twice the base's latency below capacity, or somewhat more than
 * its latency at overload. From the base's warm-up alone, so that both sides have one limit.
 */
export const sloFrom = ({ lines, startUs }: Pick<Played, "lines" | "startUs">, load: BlockLoad): number | null => {
  const { steady, past } = partsOfBlock(load, startUs);
  const quantileIn = ({ fromUs, toUs }: typeof steady, p: number): number | null => {
    const part = lines.filter((line) => line.intended_us >= fromUs && line.intended_us < toUs && isWhole(line));
    return quantile(
      part.map((line) => (line.done_us - line.intended_us) / 1000).sort((a, b) => a - b),
      p,
    );
  };
  const low = quantileIn(steady, 0.5);
  return low === null ? null : Math.max(SLO_OF_LOW * low, SLO_OF_OVERLOAD * (quantileIn(past, 0.9) ?? 0));
};

export const measurePairs = async (plan: GatePairsPlan): Promise<GateMeasured> => {
  const { seed, load, looks, sloMs, noisy, isOver } = plan;
  const policy: GatePolicy = { ...GATE_POLICY, looks: looks.length };
  const pairs: Pair[] = [];
  const findings: BlockFinding[] = [];
  const dropped: string[] = [];
  let number = 0;
  let comparisons: Comparison[] = [];
  const onePair = async (): Promise<void> => {
    const blocks: [Side, Played][] = [];
    const problems: string[] = [];
    for (const side of orderOf(seed, number)) {
      if (isOver()) return;
      const played = await plan.play(side, number);
      problems.push(...played.problems.map((reason) => `pair ${number + 1}, ${side}: ${reason}`));
      findings.push(...played.claims.map((claim) => ({ side, pair: number, claim })));
      blocks.push([side, played]);
    }
    if (isOver()) return;
    const foreignLastEvent = !blocks.some(([, { lines }]) => knowsLastEvent(lines));
    const values: Partial<Record<Side, BlockValues>> = {};
    for (const [side, { lines, startUs }] of blocks) {
      const parts = partsOfBlock(load, startUs);
      values[side] = measureBlock(lines, { ...parts, sloMs, noisy: noisy[side], foreignLastEvent });
    }
    if (problems.length > 0) dropped.push(problems.join("; "));
    else pairs.push(values as Pair);
    number += 1;
  };
  for (const [at, look] of looks.entries()) {
    while (number < look && !isOver()) {
      await onePair();
      plan.onPair?.(number, look);
    }
    comparisons = comparePairs(pairs, policy);
    const isBroken = brokenOnHeadAlone(findings).length > 0;
    const open = verdictOf(comparisons) === "inconclusive" && !isBroken && !isOver();
    const next = open ? (looks[at + 1] ?? null) : null;
    plan.onLook?.(comparisons, pairs.length, next);
    if (next === null) break;
  }
  return { pairs, findings, comparisons, policy, dropped, isWhole: number >= (looks[0] ?? 0) };
};
