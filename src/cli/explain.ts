/**
 * `floodgate explain CLAIM`: what a claim means, how it is judged, what breaks it, what it rests on; or what a
 * measurement or a word of the page means; or a requirement by its number. `floodgate completion SHELL`: a script that
 * completes commands, options and the names they take.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Argument, type Command } from "commander";
import { noSuch } from "../contract/nearest.ts";
import { EXPERIMENTS } from "../faults/experiments.ts";
import { REASON_CODES, type ReasonCode } from "../history/reason-codes.ts";
import { groupOf } from "../history/run-document.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { MUTANTS } from "../mutants/catalogue.ts";
import { CLAIM_FAMILIES, familyOf } from "../report/claim-families.ts";
import { MEASUREMENT_NAMES, meaningOf } from "../report/page/definitions.ts";
import { wrapped } from "../report/terminal.ts";
import { SCENARIOS, SUITES } from "../run/suites/suites.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { UsageError } from "../supervision/user-file.ts";
import { RULES } from "../verify/catalogue.ts";
import { commandOf } from "./options.ts";
import { printResult, printShown } from "./printing.ts";

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

/** Titles of tests and cases that end in `(item 5)` or `(items 61, 31-33)`, by number, each with its file. */
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

const killersOf = (id: string): string[] =>
  MUTANTS.filter(({ kills }) => kills.includes(id)).map(({ name, harm }) => `${name}: ${harm}`);

/** Explains a claim. Throws `UsageError` for an unknown claim, with the nearest known name. */
export const explain = (asked: string) => {
  const invariant = INVARIANTS.find(({ id }) => id === groupOf(asked));
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
  for (const command of ["load", "chaos"]) {
    if (!NAMES[command]?.().includes(asked)) continue;
    const lists = command === "load" ? "load" : "chaos --list";
    throw new UsageError(
      `${asked} is a stage; npx floodgate ${lists} says what it plays, and its claims end in /${asked}`,
    );
  }
  const known = [
    ...INVARIANTS.map(({ id }) => id),
    ...RULES.map(({ id }) => `verify/${id}`),
    ...CLAIM_FAMILIES.map(({ pattern }) => pattern.replace("/*", "")),
  ];
  const meant = /^(?:verify|curve)\//.test(asked) ? asked : groupOf(asked);
  throw new UsageError(noSuch("claim", meant, known, "`npx floodgate explain` lists them"));
};

/** A requirement and what defends it: rules, invariants, claims, tests. Throws `UsageError` for an unknown number. */
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

const under = (titled: Readonly<Record<string, readonly string[]>>): string[] =>
  Object.entries(titled).flatMap(([title, texts]) =>
    texts.flatMap((text, at) => wrapped(text, (at === 0 ? title : "").padEnd(13), 13)),
  );

const linesOf = ({ id, means, judged, breaks, spec }: ReturnType<typeof explain>): string[] => {
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
  "",
  "Measurements, explained alike, also with a quantile such as ttfe_ms_p99:",
  ...wrapped(MEASUREMENT_NAMES.join(", "), "  ", 2),
  "",
  "Codes of claims, explained alike:",
  ...wrapped(Object.keys(REASON_CODES).join(", "), "  ", 2),
];

const CLAIM =
  "its id, as the report has it; a measurement, such as ttfe_ms_p99; a code, such as role-missing; or the number of a requirement; without one, all claims are listed";

export const explainCommand = () =>
  commandOf("explain", {
    about: "what a claim of a report means, how it is judged, what breaks it; what a measurement is",
    operands: [["[claim]", CLAIM]],
    options: [["--json", "print it as JSON"]],
  }).action((claim: string | undefined, { json }: { json?: boolean }) => {
    if (claim === undefined) return printResult(listed().join("\n"));
    if (/^\d+$/.test(claim)) {
      const found = explainItem(Number(claim));
      const { id, means, rules, invariants, claims, tests } = found;
      const told = { Says: [means], Rules: rules, Invariants: invariants, Claims: claims, Tests: tests };
      return printShown(json, { document: found, lines: [`Requirement ${id}`, "", ...under(told)] });
    }
    if (Object.hasOwn(REASON_CODES, claim)) {
      const { about, means, todo } = REASON_CODES[claim as ReasonCode];
      const told = { Means: [means], "Look at": [`the ${about}`], "What to do": [todo] };
      return printShown(json, { document: { id: claim, about, means, todo }, lines: [claim, "", ...under(told)] });
    }
    const means = meaningOf(claim);
    if (means !== undefined)
      return printShown(json, { document: { id: claim, means }, lines: [claim, "", ...under({ Means: [means] })] });
    const explained = explain(claim);
    printShown(json, { document: explained, lines: linesOf(explained) });
  });

const NAMES: Readonly<Record<string, () => readonly string[]>> = {
  run: () => [...SUITES.keys()],
  load: () => SCENARIOS.map(({ name }) => name),
  chaos: () => [...EXPERIMENTS.keys()],
  completion: () => ["bash", "zsh", "fish"],
};

const wordsOf = (command: Command) => {
  const names = NAMES[command.name()]?.() ?? [];
  const children = command.commands.map((child) => child.name());
  const all = [command, ...command.commands].flatMap((one) => one.options);
  const options = [...new Set(all.flatMap(({ long, hidden }) => (long == null || hidden ? [] : [long])))];
  // The name of a value in the help says what it is, as in `--page <file>`.
  const takesPath = all.filter(({ flags }) => /<(?:name-or-file|file|dir|folder|run)\b/.test(flags));
  const files = takesPath.map(({ long }) => `${long}`);
  return { command: command.name(), about: command.description(), words: [...names, ...children, ...options], files };
};

type Words = ReturnType<typeof wordsOf>;

/** For bash and zsh, which can emulate bash's completion. */
const forBash = (all: readonly Words[]): string => `_floodgate() {
  local word=\${COMP_WORDS[COMP_CWORD]} command= part
  for part in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $part in floodgate | -*) ;; *) command=$part; break ;; esac
  done
  case \${COMP_WORDS[COMP_CWORD-1]} in
    ${[...new Set(all.flatMap(({ files }) => files))].join(" | ")})
      COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  case $command in
${all.map(({ command, words }) => `    ${command}) COMPREPLY=($(compgen -W "${words.join(" ")}" -- "$word")) ;;`).join("\n")}
    *) COMPREPLY=($(compgen -W "${all.map(({ command }) => command).join(" ")} --help --version" -- "$word")) ;;
  esac
}
_floodgate_by_npx() {
  COMPREPLY=()
  [ "\${COMP_WORDS[1]}" != floodgate ] || [ "$COMP_CWORD" = 1 ] || _floodgate
}
complete -o default -F _floodgate floodgate
complete -p npx >/dev/null 2>&1 || complete -o default -F _floodgate_by_npx npx
`;

const quoted = (text: string): string => `'${text.replaceAll("'", "\\'")}'`;

const forFish = (all: readonly Words[]): string => {
  const when = (condition: string, rest: string): string => `complete -c floodgate -n ${condition} ${rest}\n`;
  const lines = [
    ...all.map(({ command, about }) => when("__fish_use_subcommand", `-f -a ${command} -d ${quoted(about)}`)),
    ...all.flatMap(({ command, words }) =>
      words.map((word) => when(`'__fish_seen_subcommand_from ${command}'`, `-a ${quoted(word)}`)),
    ),
  ];
  return lines.join("");
};

const SCRIPTS: Readonly<Record<string, (all: readonly Words[]) => string>> = {
  bash: forBash,
  zsh: (all) => `autoload -U +X bashcompinit && bashcompinit\n${forBash(all)}`,
  fish: forFish,
};

export const completionCommand = (commands: () => Promise<readonly Command[]>) =>
  commandOf("completion", {
    about: "print a script that completes commands, options and names in your shell",
    help: "\nbash and zsh read the file that you write by `source FILE` in ~/.bashrc or\n~/.zshrc.",
  })
    .addArgument(new Argument("<shell>").choices(Object.keys(SCRIPTS)))
    .action(async (shell: string) => printResult(SCRIPTS[shell]?.((await commands()).map(wordsOf)) ?? ""));
