/** The matrix mutant × column of `dev mutants`, as text 80 columns wide: one word a cell, below it who must kill and who did. */
import { type Mutant, nobody } from "../mutants/mutant.ts";
import { COLUMNS, type Column, columnOf, isRight, type Trial, type TrialVerdict } from "./trials.ts";

type CellVerdict = TrialVerdict | "not-tried";

type Cell = {
  verdict: CellVerdict;
  /** Whether the mutant has to be killed in this column. */
  must: boolean;
  /** Judges that failed it here, those that must first. */
  by: string[];
};

export type Row = {
  mutant: string;
  /** `null` for the healthy platform. */
  must: { column: Column; stage: string; by: readonly string[] } | null;
  cells: Record<Column, Cell>;
  trials: Trial[];
};

/** In descending weight: the first that occurs is shown. */
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

/** The healthy platform first. */
export const matrixOf = (mutants: readonly Mutant[], trials: readonly Trial[]): Row[] =>
  [nobody, ...mutants].map((mutant) => rowOf(mutant, trials));

const WIDTH = 80;
/** Judges named in the list; --json names all. */
const NAMED = 4;

/** Capitals for cells in which the verdict counts. */
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

/** Wraps the text at the width of a screen, indented under its first word. */
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

/** Marks the judges that must kill it; names some of the others. */
const judges = ({ by, intended, own }: Trial): string => {
  const meant = (id: string): boolean => own && intended.includes(id);
  const bare = (id: string): string => id.replace(/^(verify|gate)\//, "");
  const each = [...new Set(by)];
  const named = [...each.filter(meant).map((id) => `${bare(id)}*`), ...each.filter((id) => !meant(id)).map(bare)];
  const more = named.length - NAMED;
  return `: ${named.slice(0, NAMED).join(", ")}${more > 0 ? ` +${more}` : ""}`;
};

/** All laws as one place. */
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

/** Undecided trials where nothing had to be decided, grouped by reason. */
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
