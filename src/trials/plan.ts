/** Which mutant is tried where, and in what order: most small stages side by side, the gate alone and last. */
import { type Mutant, type MutantStage, nobody } from "../mutants/mutant.ts";
import { CHEAPEST, COLUMNS, type Column, columnOf, SEEN_UNDER_LOAD } from "./columns.ts";
import { MINI_STAGE_NAMES } from "./stages.ts";
import { type Trial, tryOn } from "./trials.ts";

type Attempt = { mutant: Mutant; stage: MutantStage; own: boolean };

type PlanOptions = {
  columns?: readonly Column[];
  /** Each mutant on every small stage, the gate included. */
  everywhere?: boolean;
};

/** Stages tried at once: most of their time is spent waiting. */
const AT_ONCE = 4;

const stagesFor = (mutant: Mutant, everywhere: boolean): MutantStage[] => {
  if (everywhere) return [...MINI_STAGE_NAMES];
  const cheapest = COLUMNS.flatMap((column) => (columnOf(mutant.stage) === column ? [] : (CHEAPEST[column] ?? [])));
  const underLoad: MutantStage[] = SEEN_UNDER_LOAD.has(mutant.stage) ? ["verify-load"] : [];
  return [...new Set([mutant.stage, ...cheapest, ...underLoad])];
};

/**
 * The healthy platform on every stage that is visited; each mutant on the stage where it has to be caught and on the cheapest
 * one of every other column.
 */
export const planTrials = (mutants: readonly Mutant[], options: PlanOptions = {}): Attempt[] => {
  const { columns = COLUMNS, everywhere = false } = options;
  const attempts = mutants.flatMap((mutant) =>
    stagesFor(mutant, everywhere).map((stage) => ({ mutant, stage, own: stage === mutant.stage })),
  );
  const wanted = attempts.filter(({ stage }) => columns.includes(columnOf(stage)));
  const visited = MINI_STAGE_NAMES.filter((name) => wanted.some(({ stage }) => stage === name));
  return [...visited.map((stage) => ({ mutant: nobody, stage, own: true })), ...wanted];
};

/** In the order of the attempts, whatever the order in which they ended. */
export const tryAll = async (
  attempts: readonly Attempt[],
  onTrial: (trial: Trial) => void = () => {},
): Promise<Trial[]> => {
  const trials: Trial[] = [];
  const work = async (entries: Iterable<[number, Attempt]>): Promise<void> => {
    for (const [at, { mutant, stage, own }] of entries) {
      const trial = await tryOn(mutant, stage, own);
      trials[at] = trial;
      onTrial(trial);
    }
  };
  const all = [...attempts.entries()];
  const sideBySide = all.filter(([, { stage }]) => stage !== "gate").values();
  await Promise.all(Array.from({ length: AT_ONCE }, () => work(sideBySide)));
  // It compares times, so nothing else of ours may run beside it.
  await work(all.filter(([, { stage }]) => stage === "gate"));
  return trials;
};
