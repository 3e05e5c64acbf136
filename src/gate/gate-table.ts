/** What the gate found, as a table for a terminal of 80 columns. */
import type { Claim } from "../history/run-document.ts";
import { MEASUREMENT_FACTS } from "./measurements.ts";
import { type Comparison, type GateVerdict, smallestSeen } from "./paired-comparison.ts";

const WORDS: Record<GateVerdict, string> = {
  regression: "WORSE",
  "no-regression": "ok",
  inconclusive: "open",
  "not-measured": "-",
};

const value = ({ measurement }: Comparison, number: number | null): string => {
  if (number === null) return "-";
  if (MEASUREMENT_FACTS[measurement].unit === "share") return `${(number * 100).toFixed(2)}%`;
  return number >= 100 ? number.toFixed(0) : number.toFixed(number >= 10 ? 1 : 2);
};

/** Three digits behind the point; what is many times worse needs none. */
const ratio = (number: number | null): string =>
  number === null ? "-" : number >= 100 ? ">=100" : number.toFixed(number >= 10 ? 1 : 3);

const HEADER = ["measurement", "base", "head", "ratio", "95 % interval", "allowed", "seen", "verdict"];

const rowOf = (found: Comparison): string[] => [
  found.measurement,
  value(found, found.base),
  value(found, found.head),
  ratio(found.worseBy),
  found.low === null ? "-" : `${ratio(found.low)}-${ratio(found.high)}`,
  ratio(found.margin),
  ratio(smallestSeen(found)),
  found.improved ? "better" : WORDS[found.verdict],
];

/** Widths of the columns, 80 with a space between. */
const WIDTHS = [16, 7, 7, 6, 13, 7, 6, 7];

const line = (cells: readonly string[]): string =>
  cells
    .map((cell, at) => (at === 0 || at === 7 ? cell.padEnd(WIDTHS[at]!) : cell.padStart(WIDTHS[at]!)))
    .join(" ")
    .trimEnd();

const EXPLAINED = [
  "ratio: head to base, turned so that above 1 is worse (shares: by what remains",
  "of the calls), typical of the pairs. seen: the smallest ratio that these pairs",
  "would have shown as worse nine times in ten.",
];

const CLAIMS = new Set(["gate/invariants", "gate/goodput_kept"]);

/** Breaks at spaces; a word longer than a line stands alone. */
const wrapped = (text: string, width: number): string[] => {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(lines.length === 0 ? word : `  ${word}`);
  }
  return lines;
};

/** `claims`: all of the gate; those that are no comparison stand below the table. */
export const gateTable = (comparisons: readonly Comparison[], claims: readonly Claim[]): string[] => [
  line(HEADER),
  ...comparisons.map((found) => line(rowOf(found))),
  ...EXPLAINED,
  ...claims.flatMap(({ id, verdict, reason }) => (CLAIMS.has(id) ? wrapped(`${id}: ${verdict}: ${reason}`, 80) : [])),
];
