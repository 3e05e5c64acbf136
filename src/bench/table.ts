/** Formats the rows as a table of 80 columns: ratios with their spread, then the medians behind them. */
import { type Row, spreadOf, type Target } from "./comparison.ts";

const COLUMNS = [23, 8, 8, 7, 7, 9, 9] as const;
const HEAD = ["bench", "target", "ratio", "min", "max", "ours", "against"];

const line = (cells: readonly string[]): string =>
  cells
    .map((cell, at) => (at === 0 ? cell.padEnd(COLUMNS[0]) : cell.padStart(COLUMNS[at] ?? 0)))
    .join("")
    .trimEnd();

const targetText = (target: Target | null): string =>
  target === null ? "-" : "atLeast" in target ? `>= ${target.atLeast}` : `<= ${target.atMost}`;

/** Formats a number with about three significant digits and `M` or `k`. */
export const short = (value: number): string => {
  if (!Number.isFinite(value)) return "-";
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)}M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)}k`;
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
};

const MARKS: Partial<Record<Row["verdict"], string>> = { missed: " MISSED", "too-wide": " WIDE" };

const rowText = (row: Row): string[] => {
  const figures = [row.ratio, row.ratioMin, row.ratioMax];
  const cells = figures.map((value) => (Number.isFinite(value) ? value.toFixed(2) : "-"));
  const mark = MARKS[row.verdict] ?? (row.doubts.length > 0 ? " ?" : "");
  const text = [line([row.name, targetText(row.target), ...cells, short(row.ours), short(row.against)]) + mark];
  if (row.leftOut > 0)
    text.push(`  of ${row.rounds + row.leftOut} pairs, ${row.leftOut} left out: others disturbed them`);
  if (row.verdict === "too-wide") {
    const percent = Math.round(spreadOf(row) * 100);
    text.push(`  spread too wide: the rounds lie ${percent} % of the ratio apart, more than a fifth`);
  }
  for (const doubt of row.doubts) text.push(`  not to be trusted: ${doubt}`);
  return text;
};

export const tableOf = (rows: readonly Row[], skipped: readonly { name: string; reason: string }[]): string =>
  [
    line(HEAD),
    ...rows.flatMap(rowText),
    ...skipped.map(({ name, reason }) => `${name.padEnd(COLUMNS[0])} SKIPPED: ${reason}`),
    "ratio: ours over against, typical of the rounds. by CPU: for a second of the",
    "server's CPU time, which stands also where the client was the bottleneck.",
  ].join("\n");
