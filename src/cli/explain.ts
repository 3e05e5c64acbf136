/** `floodgate explain CLAIM`: what a claim means, how it is judged, what usually breaks it, what it rests on; and of a number, the requirement. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { noSuch } from "../contract/nearest.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { MUTANTS } from "../mutants/catalogue.ts";
import { CLAIM_FAMILIES, familyOf } from "../report/claim-families.ts";
import { wrapped } from "../report/terminal.ts";
import { UsageError } from "../run/exit-codes.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import { RULES } from "../verify/catalogue.ts";
import { printResult, printShown } from "./printing/output.ts";

/** The requirements by number, each with its tag: `[R]` stated, `[A]` ambiguous, `[G]` a gap. */
export const requirements = (): Map<number, string> => {
  const text = readFileSync(join(REPOSITORY, "src/contract/requirements.md"), "utf8");
  return new Map(
    [...text.matchAll(/^(\d+)\. (\[[RGA]\] .*)$/gm)].map(([, item, what]) => [Number(item), what as string]),
  );
};

const numbersIn = (list: string): number[] =>
  list.split(",").flatMap((part) => {
    const [first = 0, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, at) => first + at);
  });

/** Titles of tests and of their cases that end in `(item 5)` or `(items 61, 153, 31-33)`, by number, each with its file. */
export const testsByItem = (): Map<number, string[]> => {
  const found = new Map<number, string[]>();
  for (const folder of ["src", "properties"]) {
    for (const name of readdirSync(join(REPOSITORY, folder), { recursive: true, encoding: "utf8" }).sort()) {
      if (!name.endsWith(".test.ts")) continue;
      const path = join(folder, name);
      const titles = readFileSync(join(REPOSITORY, path), "utf8").matchAll(
        /["'`]([^"'`\n]*\(items? ([\d, -]+)\)[^"'`\n]*)["'`]/g,
      );
      for (const [, title, items] of titles) {
        for (const item of numbersIn(items as string)) {
          found.set(item, [...(found.get(item) ?? []), `${path}: ${title}`]);
        }
      }
    }
  }
  return found;
};

const LEVELS = {
  must: "must: a breach fails the run",
  should: "should: a breach is reported and fails nothing",
  info: "info: recorded only",
} as const;

const headOf = (id: string): string => id.split("/")[0] as string;

type Explained = { id: string; means: string; judged: string; breaks: string[]; spec: readonly number[] };

const killersOf = (id: string): string[] =>
  MUTANTS.filter(({ kills }) => kills.includes(id)).map(({ name, harm }) => `${name}: ${harm}`);

/** Throws `UsageError` for a claim that is not known, with the one that was meant. */
export const explain = (asked: string): Explained => {
  const invariant = INVARIANTS.find(({ id }) => id === headOf(asked));
  if (invariant !== undefined) {
    const { id, level, spec, statement, time } = invariant;
    const judged = `${LEVELS[level]}. Judged over every call of a stage, in the order in which they were sent${time === undefined ? "" : "; about time, so a busy host may leave it open"}`;
    return { id: `${id}/<stage>`, means: statement, judged, breaks: killersOf(id), spec };
  }
  const rule = RULES.find(({ id }) => id === asked || `verify/${id}` === asked);
  if (rule !== undefined) {
    const { id, level, spec, title, phase } = rule;
    const judged = `${LEVELS[level]}. Tried from outside by calls of its own (phase ${phase}): npx floodgate verify --only ${id}`;
    return { id: `verify/${id}`, means: title, judged, breaks: killersOf(`verify/${id}`), spec };
  }
  if (asked === "verify") {
    throw new UsageError(`verify is a group of ${RULES.length} claims; npx floodgate verify --list has them`);
  }
  const family = familyOf(asked);
  if (family !== undefined) {
    const { pattern, means, judged, breaks, spec = [] } = family;
    return { id: pattern.replace("*", "<name>"), means, judged, breaks: [...killersOf(asked), breaks], spec };
  }
  const known = [
    ...INVARIANTS.map(({ id }) => id),
    ...RULES.map(({ id }) => `verify/${id}`),
    ...CLAIM_FAMILIES.map(({ pattern }) => pattern.replace("/*", "")),
  ];
  const meant = /^(?:verify|curve)\//.test(asked) ? asked : headOf(asked);
  throw new UsageError(noSuch("claim", meant, known, "`npx floodgate explain` lists them"));
};

/** A requirement with the rules, invariants, families of claims and tests that defend it. Throws `UsageError` for a number that none has. */
const explainItem = (item: number) => {
  const means = requirements().get(item);
  if (means === undefined) throw new UsageError(`no requirement has the number ${item}: there are 234, from 1 to 234`);
  const citing = ({ spec }: { spec?: readonly number[] }): boolean => spec?.includes(item) === true;
  return {
    id: `${item}`,
    means,
    rules: RULES.filter(citing).map(({ id, title }) => `verify/${id}: ${title}`),
    invariants: INVARIANTS.filter(citing).map(({ id, statement }) => `${id}: ${statement}`),
    claims: CLAIM_FAMILIES.filter(citing).map(({ pattern, means }) => `${pattern}: ${means}`),
    tests: testsByItem().get(item) ?? [],
  };
};

/** Wrapped paragraphs in a column; the first of each list has the title of the list in front of it. */
const under = (titled: Readonly<Record<string, readonly string[]>>): string[] =>
  Object.entries(titled).flatMap(([title, texts]) =>
    texts.flatMap((text, at) => wrapped(text, (at === 0 ? title : "").padEnd(13), 13)),
  );

const linesOf = ({ id, means, judged, breaks, spec }: Explained): string[] => {
  const texts = requirements();
  const rests = spec.map((item) => `${item}. ${texts.get(item) ?? "(see requirements.md)"}`);
  const legend = "[R] stated, [G] a gap of the specification, [A] ambiguous: src/contract/requirements.md";
  const told = under({ Means: [means], Judged: [judged], "Broken by": breaks, "Rests on": rests });
  return [id, "", ...told, ...(spec.length === 0 ? [] : ["", legend])];
};

const listed = (): string[] => [
  "Claims, explained by: npx floodgate explain CLAIM",
  ...INVARIANTS.flatMap(({ id, statement }) => wrapped(statement, `  ${id}/<stage>  `, 6)),
  ...CLAIM_FAMILIES.flatMap(({ pattern, means }) => wrapped(means, `  ${pattern.replace("*", "<name>")}  `, 6)),
  `  verify/<rule>  ${RULES.length} rules; npx floodgate verify --list`,
];

export const command = (): Command =>
  new Command("explain")
    .description("what a claim of a report means, how it is judged, what breaks it")
    .argument("[claim]", "its id, as the report has it, or the number of a requirement; without one, all are listed")
    .option("--json", "print it as JSON")
    .action((claim: string | undefined, { json }: { json?: boolean }) => {
      if (claim === undefined) return printResult(listed().join("\n"));
      if (/^\d+$/.test(claim)) {
        const found = explainItem(Number(claim));
        const { id, means, rules, invariants, claims, tests } = found;
        const told = { Says: [means], Rules: rules, Invariants: invariants, Claims: claims, Tests: tests };
        return printShown(json, { document: found, lines: [`Requirement ${id}`, "", ...under(told)] });
      }
      const explained = explain(claim);
      printShown(json, { document: explained, lines: linesOf(explained) });
    });
