/**
 * `node properties/mutant-laws.ts [--json] [--runs N] [--law NAME] [--seed N] [MUTANT…]`: the laws with a mutant's
 * parts in place of the healthy ones; without names every mutant, and `nobody`, the healthy platform. One line of JSON on
 * stdout for each mutant and law that looks at what it spoils, as it goes:
 *
 *   {"mutant":"…","law":"…","verdict":"killed"|"survived"|"undecided","reason":"…","seed":N,"path":"…"|null}
 *
 * `--seed` is a base as for `npm run properties`; `--seed N --law L --path P MUTANT`, from such a line, tries that one case
 * again. Exit codes: 0 everything was tried (whatever the verdicts), 2 the options are wrong.
 */
import { parseArgs } from "node:util";
import { MUTANTS } from "../src/mutants/catalogue.ts";
import { type Mutant, nobody } from "../src/mutants/mutant.ts";
import { eachAtOnce } from "../src/supervision/waiting.ts";
import { readBudget } from "./laws/seed.ts";
import type { LawTrial, TrialOptions } from "./rigs/mutant-trial.ts";

/** Deployments that run at once; they mostly wait for lost answers. */
const AT_ONCE = 4;

class UsageError extends Error {}

const read = () => {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        json: { type: "boolean" },
        runs: { type: "string" },
        law: { type: "string" },
        seed: { type: "string" },
        path: { type: "string" },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
};

const chosenMutants = (names: readonly string[]): Mutant[] => {
  const all = [nobody, ...MUTANTS];
  const unknown = names.filter((name) => !all.some((mutant) => mutant.name === name));
  if (unknown.length > 0) throw new UsageError(`No mutant is called ${unknown.join(", ")}.`);
  return names.length === 0 ? all : all.filter(({ name }) => names.includes(name));
};

const main = async (): Promise<void> => {
  const { values, positionals } = read();
  const integer = (name: "seed" | "runs"): number | null => {
    const text = values[name];
    if (text === undefined) return null;
    if (!/^\d+$/.test(text)) throw new UsageError(`--${name} should be a whole number, but is "${text}".`);
    return Number(text);
  };
  const { law: name, path } = values;
  const seed = integer("seed");
  if (path !== undefined && (seed === null || name === undefined)) {
    throw new UsageError("--path leads to one case of one law, so it needs --seed and --law.");
  }
  const mutants = chosenMutants(positionals);
  // Loads the whole platform only after the options proved valid.
  const { PART_LAWS } = await import("./laws/part-laws.ts");
  const { lawsFor, tryLaw } = await import("./rigs/mutant-trial.ts");
  const laws = PART_LAWS.filter((law) => name === undefined || law.name === name);
  if (laws.length === 0) {
    throw new UsageError(`No law fits; there are ${PART_LAWS.map((law) => law.name).join(", ")}.`);
  }
  const options: TrialOptions = { seed: seed ?? readBudget({}).seed, runs: integer("runs"), path };
  const say = (line: LawTrial): void => void process.stdout.write(`${JSON.stringify(line)}\n`);
  const trials = mutants.flatMap((mutant) => lawsFor(mutant, laws).map((law) => ({ mutant, law })));
  // Laws that use the CPU run first and alone, because they would delay the timers of laws that wait.
  for (const { mutant, law } of trials.filter((trial) => trial.law.waits !== true))
    say(await tryLaw(law, mutant, options));
  const waiting = trials.filter((trial) => trial.law.waits === true);
  await eachAtOnce(AT_ONCE, waiting, async ({ mutant, law }) => say(await tryLaw(law, mutant, options)));
};

try {
  await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 2;
}
