/** The matrix mutant × column of `dev mutants`, and as text of 80 columns: a word a cell, below it who must and who did. */
import { type Mutant, nobody } from "../mutants/mutant.ts";
import { COLUMNS, type Column, columnOf, isRight, type Trial, type TrialVerdict } from "./trials.ts";

type CellVerdict = TrialVerdict | "not-tried";

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

const WIDTH = 80;
/** Judges named in one place of the list; --json names them all. */
const NAMED = 4;

/** Capitals where something has to be so: there the verdict counts. */
const WORDS: Record<CellVerdict, { must: string; else: string }> = {
  killed: { must: "KILLED", else: "seen" },
  "wrong-judge": { must: "WRONG", else: "seen" },
  survived: { must: "MISSED", else: "no" },
  seen: { must: "seen", else: "seen" },
  "not-seen": { must: "no", else: "no" },
  acquitted: { must: "clean", else: "clean" },
  "false-positive": { must: "FALSE", else: "FALSE" },
  undecided: { must: "OPEN", else: "open" },
  "not-tried": { must: "-", else: "-" },
};

const LEGEND = [
  "KILLED  by everybody who must        MISSED  by all      WRONG  by others alone",
  "clean   the healthy platform, acquitted                  FALSE  condemned",
  "seen    by somebody who need not     no      not seen    -      not tried*",
  "OPEN    undecided where it has to be decided             open   elsewhere",
];

const table = (rows: readonly Row[], columns: readonly Column[]): string[] => {
  const first = Math.max(...rows.map(({ mutant }) => mutant.length));
  const line = (name: string, cells: readonly string[]): string =>
    [name.padEnd(first), ...cells.map((cell, at) => cell.padEnd(Math.max(6, columns[at]?.length ?? 0)))]
      .join(" ")
      .trimEnd();
  return [
    line("MUTANT", columns),
    ...rows.map(({ mutant, cells }) =>
      line(
        mutant,
        columns.map((column) => WORDS[cells[column].verdict][cells[column].must ? "must" : "else"]),
      ),
    ),
  ];
};

/** `head` and then words, broken so that no line is longer than a screen; the rest hangs below the first word. */
const wrapped = (head: string, text: string): string[] => {
  const lines: string[] = [];
  let line = head;
  for (const word of text.split(" ")) {
    if (line.length + word.length + 1 > WIDTH && line.trim() !== "" && line !== head) {
      lines.push(line.trimEnd());
      line = " ".repeat(head.length);
    }
    line += `${word} `;
  }
  return [...lines, line.trimEnd()];
};

const placeOf = ({ column, stage }: { column: string; stage: string }): string =>
  column === stage || column === "gate" ? stage : `${column}/${stage}`;

/** Those who were meant to are marked; the others are named up to a number. */
const judges = ({ by, intended, own }: Trial): string => {
  const meant = (id: string): boolean => own && intended.includes(id);
  const bare = (id: string): string => id.replace(/^(verify|gate)\//, "");
  const each = [...new Set(by)];
  const named = [...each.filter(meant).map((id) => `${bare(id)}*`), ...each.filter((id) => !meant(id)).map(bare)];
  const more = named.length - NAMED;
  return `: ${named.slice(0, NAMED).join(", ")}${more > 0 ? ` +${more}` : ""}`;
};

/** The laws as one place; each of them is a trial of its own. */
const places = (trials: readonly Trial[]): Trial[] => {
  const laws = trials.filter(({ column }) => column === "properties");
  const others = trials.filter(({ column }) => column !== "properties");
  const [first] = laws;
  if (first === undefined) return others;
  return [{ ...first, stage: first.column, own: false, by: laws.flatMap(({ by }) => by) }, ...others];
};

const listOf = ({ mutant, must, trials }: Row): string[] => {
  const seen = places(trials.filter(({ by }) => by.length > 0));
  const did = seen.flatMap((trial, at) => wrapped(at === 0 ? "  did:  " : "        ", placeOf(trial) + judges(trial)));
  const wrong = trials.filter((trial) => trial.own && !isRight(trial));
  const why = wrong.flatMap(({ verdict, reasons, ...trial }) =>
    wrapped(`  ${verdict.toUpperCase()}: `, `${placeOf(trial)}: ${reasons.join("; ")}`),
  );
  const musts = must === null ? "nobody may" : `${placeOf(must)}: ${must.by.join(", ")}`;
  return [mutant, ...wrapped("  must: ", musts), ...(did.length > 0 ? did : ["  did:  nobody"]), ...why];
};

/** What nobody could decide where nothing had to be decided, by reason, because one reason often holds for all. */
const leftOpen = (rows: readonly Row[]): string[] => {
  const byReason = new Map<string, string[]>();
  for (const trial of rows.flatMap(({ trials }) => trials)) {
    if (trial.verdict !== "undecided" || trial.own) continue;
    const reason = `${trial.column}: ${trial.reasons[0] ?? "no reason was given"}`;
    byReason.set(reason, [...(byReason.get(reason) ?? []), trial.mutant]);
  }
  return [...byReason].flatMap(([reason, of]) =>
    wrapped("open: ", `${reason} (${of.length > 3 ? `${of.length} mutants` : of.join(", ")})`),
  );
};

export const mutantsTable = (rows: readonly Row[], columns: readonly Column[] = COLUMNS): string => {
  const open = leftOpen(rows);
  return [
    ...table(rows, columns),
    "",
    ...LEGEND,
    "",
    "* by properties: no law looks at what it spoils",
    "must: who has to catch it, and where    did: who has (* was meant to)",
    "",
    ...rows.flatMap(listOf),
    ...(open.length > 0 ? ["", ...open] : []),
    "",
  ].join("\n");
};
