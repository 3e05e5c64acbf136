/** Counts the calls of a probe for each objective. A call counts when it was due, so late calls count as well. */
import { isWholeAnswer } from "../contract/streams.ts";
import { type CallLine, classOf } from "../history/line.ts";
import { judgeObjectives } from "../history/objective-verdicts.ts";
import type { Objective } from "../history/objectives.ts";
import { median } from "../history/statistics/statistics.ts";
import type { Tally } from "./probe.ts";

/** Run time in microseconds, from inclusive, to exclusive. */
type Span = { fromUs: number; toUs: number };

/** A block of a probe lasts this many times as long as a call, so that blocks are nearly independent. */
const BLOCK_LATENCIES = 5;
const BLOCK_LEAST_US = 1_000_000;

const within = (lines: readonly CallLine[], { fromUs, toUs }: Span): CallLine[] =>
  lines.filter(({ intended_us }) => intended_us >= fromUs && intended_us < toUs);

const tallyOf = (counted: readonly CallLine[], { isBad }: ShareObjective, fromUs: number, blockUs: number) => {
  const whole = { bad: 0, n: 0 };
  const blocks = new Map<number, Tally>();
  for (const line of counted) {
    const bad = isBad(line);
    if (bad === null) continue;
    const at = Math.floor((line.intended_us - fromUs) / blockUs);
    const block = blocks.get(at) ?? { bad: 0, n: 0 };
    blocks.set(at, block);
    for (const tally of [whole, block]) {
      tally.n += 1;
      tally.bad += Number(bad);
    }
  }
  return { ...whole, blocks: [...blocks.values()] };
};

/** Tallies in one block, for a probe that still runs. */
export const tallyPlainly = (lines: readonly CallLine[], objectives: readonly ShareObjective[], span: Span): Tally[] =>
  objectives.map((objective) => tallyOf(within(lines, span), objective, span.fromUs, Number.POSITIVE_INFINITY));

export const tallyCalls = (lines: readonly CallLine[], objectives: readonly ShareObjective[], span: Span) => {
  const counted = within(lines, span);
  const answered = counted.filter((line) => classOf(line.outcome) === "answered" && isWholeAnswer(line));
  const medianUs = median(answered.map((line) => line.done_us - line.intended_us));
  const blockUs = Math.max(BLOCK_LEAST_US, BLOCK_LATENCIES * (medianUs ?? 0));
  const outcomes: Record<string, number> = {};
  for (const { outcome } of counted) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  return {
    calls: counted.length,
    tallies: objectives.map((objective) => tallyOf(counted, objective, span.fromUs, blockUs)),
    shown: objectives.map((objective) => objective.shown(counted)),
    outcomes,
    organizations: new Set(counted.map(({ org }) => org)).size,
    latencyMsP50: medianUs === null ? null : medianUs / 1000,
  };
};

export type ShareObjective = ReturnType<typeof shareObjective>;

/**
 * An objective of a search as a share of calls: `p99<=300ms` becomes "at most 1 % take longer than 300 ms". Throws an
 * `Error` for an objective by which no rate can be found.
 */
export const shareObjective = (objective: Objective) => {
  const { text, kind, limit } = objective;
  const isTime = kind === "time";
  if (isTime && objective.quantile === 1) {
    const why = "a capacity needs a share of calls, such as p999; one call decides the largest";
    throw new Error(`objective "${text}": ${why}`);
  }
  return {
    /** As the user wrote it; names the claim. */
    text,
    /** `isTime`: the objective limits a time, which is then `limitMs`. */
    ...{ isTime, limitMs: isTime ? limit : undefined },
    /** Largest share of bad calls, 0 to 1. */
    limit: isTime ? 1 - objective.quantile : limit,
    /** Judges one call by `judgeObjectives`; `null` if the objective does not cover the call. */
    isBad: (line: CallLine): boolean | null => {
      const verdict = judgeObjectives([objective], [line])[0];
      return verdict === undefined || verdict.n === 0 ? null : verdict.against > 0;
    },
    /** The objective's value over these calls, to be read in a table. */
    shown: (lines: readonly CallLine[]): string => {
      const value = judgeObjectives([objective], lines)[0]?.value ?? null;
      if (value === null) return "-";
      return isTime ? `${value.toFixed(value < 10 ? 1 : 0)} ms` : `${(value * 100).toFixed(2)} %`;
    },
  };
};
