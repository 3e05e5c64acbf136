import type { StageSeries } from "./series.ts";
import { sumOf } from "./statistics/statistics.ts";

/** `by_outcome` of a stage, added up from its bins. */
export const outcomesOf = ({ by_outcome }: StageSeries): Record<string, number> =>
  Object.fromEntries(Object.entries(by_outcome).map(([outcome, bins]) => [outcome, sumOf(bins)]));
