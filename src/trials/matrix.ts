/** Trials folded to the matrix mutant × column: who must catch it, who did. */
import { type Mutant, nobody } from "../mutants/mutant.ts";
import { COLUMNS, type Column, columnOf } from "./columns.ts";
import type { Trial, TrialVerdict } from "./trials.ts";

export type CellVerdict = TrialVerdict | "not-tried";

type Cell = {
  verdict: CellVerdict;
  /** Whether the mutant has to be caught in this column. */
  must: boolean;
  /** Who condemned it here, each once: those who had to first. */
  by: string[];
};

export type Row = {
  mutant: string;
  /** `null` for the healthy platform. */
  must: { column: Column; stage: string; by: readonly string[] } | null;
  cells: Record<Column, Cell>;
  trials: Trial[];
};

/** The first that occurs is shown of a cell with several trials. */
const WEIGHTIEST: readonly TrialVerdict[] = [
  ...(["false-positive", "survived", "wrong-judge", "killed", "seen"] as const),
  ...(["undecided", "acquitted", "not-seen"] as const),
];

const cellOf = (trials: readonly Trial[], must: boolean, healthy: boolean): Cell => {
  const deciding = must && !healthy ? trials.filter(({ own }) => own) : trials;
  const verdict = WEIGHTIEST.find((one) => deciding.some((trial) => trial.verdict === one)) ?? "not-tried";
  const meant = trials.flatMap(({ by, intended, own }) => (own ? by.filter((id) => intended.includes(id)) : []));
  return { verdict, must, by: [...new Set([...meant, ...trials.flatMap(({ by }) => by)])] };
};

const rowOf = (mutant: Mutant, all: readonly Trial[]): Row => {
  const healthy = mutant.name === nobody.name;
  const column = columnOf(mutant.stage);
  const trials = all.filter((trial) => trial.mutant === mutant.name);
  const cells = COLUMNS.map((name) => {
    const here = trials.filter((trial) => trial.column === name);
    return [name, cellOf(here, healthy || name === column, healthy)] as const;
  });
  return {
    mutant: mutant.name,
    must: healthy ? null : { column, stage: mutant.stage, by: mutant.kills },
    cells: Object.fromEntries(cells) as Record<Column, Cell>,
    trials,
  };
};

/** The healthy platform first, then the mutants in their order. */
export const matrixOf = (mutants: readonly Mutant[], trials: readonly Trial[]): Row[] =>
  [nobody, ...mutants].map((mutant) => rowOf(mutant, trials));
