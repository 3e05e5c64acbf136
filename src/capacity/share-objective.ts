/** What the search asks of an objective: is this call against it? `p99<=300ms` becomes "at most 1 % take longer than 300 ms". */
import type { CallLine } from "../history/line.ts";
import { judgeObjectives } from "../history/objective-verdicts.ts";
import type { Objective } from "../history/objectives.ts";

export type ShareObjective = {
  /** As the user wrote it; names the claim. */
  readonly text: string;
  /** Largest share of bad calls, 0 to 1. */
  readonly limit: number;
  /** Speaks of time, not of answers. */
  readonly isTime: boolean;
  /** The time that it compares with, in milliseconds. */
  readonly limitMs?: number;
  /** `null`: the objective does not speak of this call. */
  isBad(line: CallLine): boolean | null;
  /** The objective's value over these calls, to be read in a table. */
  shown(lines: readonly CallLine[]): string;
};

/** Throws a sentence where no rate could be found by it. */
export const shareObjective = (objective: Objective): ShareObjective => {
  const { text, kind, limit } = objective;
  if (kind === "time" && objective.quantile === 1) {
    throw new Error(
      `objective "${text}": a capacity needs a share of calls, such as p999; one call decides the largest`,
    );
  }
  return {
    text,
    limit: kind === "time" ? 1 - objective.quantile : limit,
    isTime: kind === "time",
    ...(kind === "time" ? { limitMs: limit } : {}),
    // The judge of many calls, asked about one.
    isBad: (line) => {
      const verdict = judgeObjectives([objective], [line])[0];
      if (verdict === undefined || verdict.n === 0) return null;
      return kind === "time" ? verdict.value === null || verdict.value > limit : verdict.value === 1;
    },
    shown: (lines) => {
      const value = judgeObjectives([objective], lines)[0]?.value ?? null;
      if (value === null) return "-";
      return kind === "time" ? `${value.toFixed(value < 10 ? 1 : 0)} ms` : `${(value * 100).toFixed(2)} %`;
    },
  };
};
