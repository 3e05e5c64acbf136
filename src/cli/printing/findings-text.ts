/** Findings as text for a terminal: 80 columns, the state first, what to do on a line of its own. */
import type { Finding, FindingState, Section } from "../../verify/doctor/finding.ts";

const COLUMNS = 80;
const INDENT = 11;

const WORDS: Readonly<Record<FindingState, string>> = {
  ok: "ok",
  info: "-",
  warn: "warn",
  missing: "missing",
  wrong: "wrong",
  silent: "silent",
  skipped: "skipped",
};

/** Breaks at blanks; a word that is longer than a line stays whole, because it is an address to be copied. */
export const wrapped = (text: string, first: string, indent: number): string[] => {
  const lines: string[] = [];
  let line = first;
  let isEmpty = true;
  for (const word of text.split(/\s+/).filter((part) => part !== "")) {
    if (!isEmpty && line.length + 1 + word.length > COLUMNS) {
      lines.push(line);
      line = " ".repeat(indent) + word;
    } else {
      line += (isEmpty ? "" : " ") + word;
    }
    isEmpty = false;
  }
  return [...lines, line.trimEnd()];
};

const findingLines = ({ state, name, text, todo }: Finding): string[] => [
  ...wrapped(`${name}: ${text}`, `  ${WORDS[state].padEnd(INDENT - 2)}`, INDENT),
  ...(todo === undefined ? [] : wrapped(todo, `${" ".repeat(INDENT)}To do: `, INDENT + 7)),
];

export const findingsText = (sections: readonly Section[]): string =>
  sections.map(({ title, findings }) => [title, ...findings.flatMap(findingLines)].join("\n")).join("\n\n");
