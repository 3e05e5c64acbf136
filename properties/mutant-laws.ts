/**
 * `node properties/mutant-laws.ts [--json] [--runs N] [--law NAME] [--seed N] [--path P] [MUTANT…]`: the laws with a mutant's
 * parts in place of the healthy ones; without names every mutant, and `nobody`, the healthy platform. One line of JSON on
 * stdout for each mutant and law that looks at what it spoils, as it goes:
 *
 *   {"mutant":"…","law":"…","verdict":"killed"|"survived"|"undecided","told":"…","seed":N,"path":"…"|null}
 *
 * `--seed` is a base as for `npm run properties`; `--path` with `--law` asks about one case again. Exit codes: 0 everything was
 * tried (whatever the verdicts), 2 the options lead nowhere.
 */
import { parseArgs } from "node:util";
import { MUTANTS } from "../src/mutants/catalogue.ts";
import { type Mutant, nobody } from "../src/mutants/mutant.ts";
import { lawsFor, type Told, tryLaw } from "./support/mutant-trial.ts";
import { PART_LAWS } from "./support/part-laws.ts";
import { readBudget } from "./support/seed.ts";

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
  const laws = PART_LAWS.filter(({ name }) => values.law === undefined || values.law === name);
  if (laws.length === 0) {
    throw new UsageError(`No law is called ${values.law}; there are ${PART_LAWS.map(({ name }) => name).join(", ")}.`);
  }
  if (values.path !== undefined && values.law === undefined)
    throw new UsageError("--path needs the --law it belongs to.");
  const options = {
    baseSeed: integer("seed") ?? readBudget({}).seed,
    runs: integer("runs"),
    path: values.path,
  };
  const say = (told: Told): void => void process.stdout.write(`${JSON.stringify(told)}\n`);
  for (const mutant of chosenMutants(positionals)) {
    for (const law of lawsFor(mutant, laws)) say(await tryLaw(law, mutant, options));
  }
};

try {
  await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 2;
}
