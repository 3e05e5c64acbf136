/** Findings of `doctor` and `init` as text of 80 columns: the state first, what to do on a line of its own. */
import { wrapped } from "../../report/terminal.ts";
import type { Finding, Section } from "../../verify/doctor/finding.ts";

const INDENT = 11;

const findingLines = ({ state, name, text, todo }: Finding): string[] => [
  ...wrapped(`${name}: ${text}`, `  ${(state === "info" ? "-" : state).padEnd(INDENT - 2)}`, INDENT),
  ...(todo === undefined ? [] : wrapped(todo, `${" ".repeat(INDENT)}To do: `, INDENT + 7)),
];

export const findingsText = (sections: readonly Section[]): string =>
  sections.map(({ title, findings }) => [title, ...findings.flatMap(findingLines)].join("\n")).join("\n\n");
