/**
 * Which mutant is tried where, and in what order. The columns of `dev mutants` are the five kinds of judge:
 *
 *   properties  the laws of `properties/`, run with the mutant's parts
 *   verify      the black-box rules, without and with load
 *   load        the invariants over what came of calls
 *   chaos       the same, with a dependency broken and healed meanwhile
 *   gate        the comparison with the healthy platform, side by side
 */
import { type Mutant, type MutantStage, nobody } from "../mutants/mutant.ts";
import { MINI_STAGE_NAMES } from "./stages.ts";
import { COLUMNS, type Column, columnOf, type Trial, tryOn } from "./trials.ts";

/** The cheapest stage of each column, on which every mutant is tried. Not of the gate, which is too slow. */
export const CHEAPEST: Readonly<Partial<Record<Column, MutantStage>>> = {
  verify: "verify",
  load: "answers",
  chaos: "limiter-refused",
};

/** Mutants of these stages affect calls in flight or rates, which `verify` may see under load. */
const SEEN_UNDER_LOAD: readonly MutantStage[] = [
  ...(["overload", "past-capacity", "noisy", "rate-edge", "patient-client", "two-replicas", "streams"] as const),
];

type Attempt = { mutant: Mutant; stage: MutantStage; own: boolean };

/** `everywhere`: each mutant on every small stage, including the gate. */
type PlanOptions = { columns?: readonly Column[]; everywhere?: boolean };

/** Stages at once: they mostly wait. */
const AT_ONCE = 4;

const stagesFor = (mutant: Mutant, everywhere: boolean): MutantStage[] => {
  if (everywhere) return [...MINI_STAGE_NAMES];
  const cheapest = Object.values(CHEAPEST).filter((stage) => columnOf(mutant.stage) !== columnOf(stage));
  const underLoad: MutantStage[] = SEEN_UNDER_LOAD.includes(mutant.stage) ? ["verify-load"] : [];
  return [...new Set([mutant.stage, ...cheapest, ...underLoad])];
};

/** The healthy platform on every used stage; each mutant on its own stage and on the cheapest stage of every other column. */
export const planTrials = (mutants: readonly Mutant[], options: PlanOptions = {}): Attempt[] => {
  const { columns = COLUMNS, everywhere = false } = options;
  const attempts = mutants.flatMap((mutant) =>
    stagesFor(mutant, everywhere).map((stage) => ({ mutant, stage, own: stage === mutant.stage })),
  );
  const wanted = attempts.filter(({ stage }) => columns.includes(columnOf(stage)));
  const visited = MINI_STAGE_NAMES.filter((name) => wanted.some(({ stage }) => stage === name));
  return [...visited.map((stage) => ({ mutant: nobody, stage, own: true })), ...wanted];
};

/** Results in the order of the attempts. */
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
  // The gate compares times, so it runs alone.
  await work(all.filter(([, { stage }]) => stage === "gate"));
  return trials;
};
