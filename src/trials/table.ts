/**
 * The matrix mutant × column of `dev mutants`, as text 80 columns wide: one word a cell, below it who must kill and who did.
 * Mutants on real experiments have a table of their own.
 */

import { type Claim, eitherOf, type RunDocument } from "../history/run-document.ts";
import { type Mutant, nobody } from "../mutants/mutant.ts";
import { wrapped } from "../report/terminal.ts";
import { COLUMNS, type Column, columnOf, isRight, type Trial, type TrialVerdict } from "./trials.ts";

/** A cell shows the first of these verdicts that occurred: its first word where the mutant must be killed, elsewhere its second. */
const WORDS: Record<TrialVerdict | "not-tried", readonly [must: string, elsewhere: string]> = {
  "false-positive": ["FALSE", "FALSE"],
  survived: ["MISSED", "no"],
  "wrong-judge": ["WRONG", "seen"],
  killed: ["KILLED", "seen"],
  seen: ["seen", "seen"],
  undecided: ["OPEN", "open"],
  acquitted: ["clean", "clean"],
  "not-seen": ["no", "no"],
  "not-tried": ["-", "-"],
};
const WEIGHTIEST = Object.keys(WORDS) as (keyof typeof WORDS)[];

/** `must`: the mutant has to be killed in this column. `by`: judges that failed it here, those that must first. */
const cellOf = (trials: readonly Trial[], must: boolean, healthy: boolean) => {
  const deciding = must && !healthy ? trials.filter(({ own }) => own) : trials;
  const verdict = WEIGHTIEST.find((one) => deciding.some((trial) => trial.verdict === one)) ?? "not-tried";
  const meant = trials.flatMap(({ by, intended, own }) => (own ? by.filter((id) => intended.includes(id)) : []));
  return { verdict, must, by: [...new Set([...meant, ...trials.flatMap(({ by }) => by)])] };
};

type Cell = ReturnType<typeof cellOf>;
export type Row = ReturnType<typeof matrixOf>[number];

/** The rows of the matrix. The healthy platform is first; its `must` is `null`, because it may be killed nowhere. */
export const matrixOf = (mutants: readonly Mutant[], all: readonly Trial[]) =>
  [nobody, ...mutants].map(({ name, stage, kills }) => {
    const healthy = name === nobody.name;
    const column = columnOf(stage);
    const trials = all.filter((trial) => trial.mutant === name);
    const cells = COLUMNS.map((one) => {
      const here = trials.filter((trial) => trial.column === one);
      return [one, cellOf(here, healthy || one === column, healthy)] as const;
    });
    return {
      mutant: name,
      must: healthy ? null : { column, stage, by: kills },
      cells: Object.fromEntries(cells) as Record<Column, Cell>,
      trials,
    };
  });

/** Judges named in the list; --json names all. */
const NAMED = 4;

const LEGEND = [
  "KILLED  by everybody who must        MISSED  by all      WRONG  by others alone",
  "clean   the healthy platform, acquitted                  FALSE  condemned",
  "seen    by somebody who need not     no      not seen    -      not tried*",
  "OPEN    undecided where it has to be decided             open   elsewhere",
  "",
  "* by properties: no law looks at what it spoils",
  "must: who has to catch it, and where    did: who has (* was meant to)",
];

/** Aligns rows of text into lines: each column is as wide as its widest cell, and at least `least` characters. */
export const aligned = (rows: readonly (readonly string[])[], gap: string, least = 0): string[] => {
  const widths = rows[0]?.map((_, at) => Math.max(least, ...rows.map((row) => row[at]?.length ?? 0))) ?? [];
  const line = (row: readonly string[]): string => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(gap);
  return rows.map((row) => line(row).trimEnd());
};

const table = (rows: readonly Row[], columns: readonly Column[]): string[] => {
  const wordOf = ({ verdict, must }: Cell): string => WORDS[verdict][must ? 0 : 1];
  const lines = rows.map(({ mutant, cells }) => [mutant, ...columns.map((column) => wordOf(cells[column]))]);
  return aligned([["MUTANT", ...columns], ...lines], " ", 6);
};

const behind = (head: string, text: string): string[] => wrapped(text, head, head.length);

const placeOf = ({ column, stage }: { column: string; stage: string }): string =>
  column === stage || column === "gate" ? stage : `${column}/${stage}`;

/** Names judges that failed the mutant: those that must, marked by `*`, come first. */
const judges = ({ by, intended, own }: Trial): string => {
  const isMeant = (id: string): boolean => own && intended.includes(id);
  const each = [...new Set(by)].sort((a, b) => Number(isMeant(b)) - Number(isMeant(a)));
  const named = each.map((id) => `${id.replace(/^(verify|gate)\//, "")}${isMeant(id) ? "*" : ""}`);
  const more = named.length - NAMED;
  return `: ${named.slice(0, NAMED).join(", ")}${more > 0 ? ` +${more}` : ""}`;
};

/** Merges the trials of all laws into one. */
const places = (trials: readonly Trial[]): Trial[] => {
  const laws = trials.filter(({ column }) => column === "properties");
  const others = trials.filter(({ column }) => column !== "properties");
  const [first] = laws;
  if (first === undefined) return others;
  return [{ ...first, stage: first.column, own: false, by: laws.flatMap(({ by }) => by) }, ...others];
};

const listOf = ({ mutant, must, trials }: Row): string[] => {
  const seen = places(trials.filter(({ by }) => by.length > 0));
  const did = seen.flatMap((trial, at) => behind(at === 0 ? "  did:  " : "        ", placeOf(trial) + judges(trial)));
  const why = trials
    .filter((trial) => trial.own && !isRight(trial))
    .flatMap(({ verdict, reasons, ...trial }) =>
      behind(`  ${verdict.toUpperCase()}: `, `${placeOf(trial)}: ${reasons.join("; ")}`),
    );
  const musts = must === null ? "nobody may" : `${placeOf(must)}: ${must.by.join(", ")}`;
  return [mutant, ...behind("  must: ", musts), ...(did.length > 0 ? did : ["  did:  nobody"]), ...why];
};

/** Undecided trials where nothing had to be decided, grouped by reason. */
const leftOpen = (rows: readonly Row[]): string[] => {
  const open = rows.flatMap(({ trials }) => trials).filter(({ verdict, own }) => verdict === "undecided" && !own);
  const byReason = Map.groupBy(open, ({ column, reasons }) => `${column}: ${reasons[0] ?? "no reason was given"}`);
  return [...byReason].flatMap(([reason, of]) => {
    const whose = of.length > 3 ? `${of.length} mutants` : of.map(({ mutant }) => mutant).join(", ");
    return behind("open: ", `${reason} (${whose})`);
  });
};

export const mutantsTable = (rows: readonly Row[], columns: readonly Column[] = COLUMNS): string => {
  const open = leftOpen(rows);
  const parts = [table(rows, columns), LEGEND, rows.flatMap(listOf), ...(open.length > 0 ? [open] : [])];
  return `${parts.map((lines) => lines.join("\n")).join("\n\n")}\n`;
};

// Mutants of the fault kind on real experiments of `chaos`, with processes, toxiproxy and load (`dev mutants
// --experiments`). Each has to pass an experiment that does not touch what it spoils, and to be killed on the one that does.

/** The mutant has to pass `passes`; `on` has to kill it, by the invariants `by`. */
export type ExperimentTrial = Record<"mutant" | "on" | "passes", string> & { by: readonly string[] };

// biome-ignore format: a table
export const EXPERIMENT_TRIALS: readonly ExperimentTrial[] = ([
  ["fails-open", "limiter-refused", "fails-closed", "keys-refused"],
  ["answers-401-when-keys-are-down", "keys-refused", "fails-closed", "limiter-refused"],
  ["stays-broken-after-healing", "limiter-refused", "recovers", "keys-refused"],
  ["trusts-a-stale-key", "keys-refused", "fails-closed", "limiter-refused"],
  ["serves-stale-when-keys-are-down", "keys-refused", "fails-closed", "limiter-refused"],
  ["refunds-twice", "limiter-reply-lost", "charged-once", "limiter-refused"],
  ["charges-the-retry-again", "limiter-reply-lost", "charged-once", "keys-refused"],
  ["keeps-the-charge-of-a-lost-reply", "last-unit-reply-lost", "refused-is-not-charged", "limiter-refused"],
  ["stampedes-the-key-service", "keys-slow-within-budget", "recovers", "limiter-refused"],
  ["leaks-a-pool", "limiter-stopped", "nothing-is-left-open", "keys-refused"],
  ["forgets-refunds-on-restart", "api-restarted-unsettled", "refused-is-not-charged", "api-restarted"],
  ["hangs-instead-of-refusing", "limiter-reply-lost", "refuses-in-time", "limiter-refused"],
  ["forgets-the-new-month", "month-edge-reply-lost", "admits-what-is-allowed", "keys-refused"],
] as const).map(([mutant, on, by, passes]) => ({ mutant, on, by: [by], passes }));

export type ExperimentJudged = ReturnType<typeof judgeTrial>;

const failures = (claims: readonly Claim[], stage: string): Claim[] =>
  claims.filter((claim) => eitherOf(claim.stage) === stage && claim.level === "must" && claim.verdict === "fail");
const invariantOf = ({ id }: Claim): string => id.slice(0, id.indexOf("/"));
const said = ({ id, verdict, reason, got }: Claim): string => `${id}: ${verdict}: ${reason}: ${got}`;

/** `claims`: of the run with the mutant planted. `by`: invariants that failed on `on`. `told`: what was wrong, a line each. */
export const judgeTrial = ({ by: must, ...trial }: ExperimentTrial, { claims }: Pick<RunDocument, "claims">) => {
  const killers = failures(claims, trial.on);
  const by = [...new Set(killers.map(invariantOf))];
  const wrongly = failures(claims, trial.passes);
  const missed = must.filter((id) => !by.includes(id));
  const missedClaims = claims.filter((claim) => claim.stage === trial.on && missed.includes(invariantOf(claim)));
  const deciding = claims.filter(
    (claim) => claim.stage === trial.passes || claim.stage === "run" || missedClaims.includes(claim),
  );
  const open = deciding.filter(({ verdict, level }) => verdict === "inconclusive" && level === "must");
  const decided = missed.length === 0 ? "killed" : by.length > 0 ? "wrong-judge" : "survived";
  const verdict: TrialVerdict = wrongly.length > 0 ? "false-positive" : open.length > 0 ? "undecided" : decided;
  const told = verdict === "killed" ? [] : [...wrongly, ...missedClaims, ...open].map(said);
  return { ...trial, must, by, verdict, told: [...new Set(told)] };
};

/** Must claims that the healthy platform did not pass on the same experiments, one line each. */
export const healthyFaults = ({ claims }: Pick<RunDocument, "claims">): string[] =>
  claims
    .filter(({ level, verdict }) => level === "must" && (verdict === "fail" || verdict === "inconclusive"))
    .map(said);

export const experimentsOf = (trials: readonly ExperimentTrial[]): string[] => [
  ...new Set(trials.flatMap(({ on, passes }) => [passes, on])),
];

export const trialsTable = (judged: readonly ExperimentJudged[]): string[] =>
  aligned(
    [
      ["mutant", "passes", "experiment", "failed there", "verdict"],
      ...judged.map(({ mutant, passes, on, by, verdict }) => [mutant, passes, on, by.join(", ") || "-", verdict]),
    ],
    "  ",
  );
