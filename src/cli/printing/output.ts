/**
 * The one writer to stdout and stderr. Printed text may quote a server, a file or a variable, so secrets are masked,
 * escape sequences removed, and no line is a command to a CI. Only `printPainted` keeps our own colours.
 */
import { clean, cleanValue } from "../../contract/foreign-text.ts";
import { redactor } from "../../supervision/redaction.ts";

/** The colours of `report/terminal.ts`, and no other sequence. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: what begins a colour
const OUR_COLOUR = /\u001b\[(?:0|2|1;3[123])m/g;

/** CI commands: `::name` begins a line (GitHub, Gitea); `##[`, `##vso[` and `##teamcity[` stand anywhere in one. */
const COMMAND_AT_START = /^(\s*):(?=:)/gm;
const COMMAND_ANYWHERE = /#(?=#(?:vso|teamcity)?\[)/gi;

export const printable = (text: string): string =>
  clean(redactor.redact(text)).replace(COMMAND_AT_START, "$1: ").replace(COMMAND_ANYWHERE, "# ");

/** Masks and cleans a value, as JSON. No line of it can begin with a command. */
export const printableJson = (value: unknown): string =>
  JSON.stringify(cleanValue(redactor.redactValue(value)), null, 2).replace(COMMAND_ANYWHERE, "\\u0023");

const line = (text: string): string => (text.endsWith("\n") ? text : `${text}\n`);

export const printResult = (text: string): void => void process.stdout.write(line(printable(text)));

export const printJson = (value: unknown): void => void process.stdout.write(line(printableJson(value)));

/** The answer of a command, for programs (`--json`) and for people. */
export type Shown = { document: unknown; lines: readonly string[] };

export const printShown = (isJson: boolean | undefined, { document, lines }: Shown): void =>
  isJson === true ? printJson(document) : printResult(lines.join("\n"));

export const printNote = (text: string): void => void process.stderr.write(line(printable(text)));

/** Prints a note with our colours in it; the text between them is masked and cleaned. */
export const printPainted = (text: string): void => {
  const colours = [...(text.match(OUR_COLOUR) ?? []), ""];
  const parts = text.split(OUR_COLOUR).map(printable);
  process.stderr.write(line(parts.map((part, i) => part + colours[i]).join("")));
};

export const isTerminal = (): boolean => process.stderr.isTTY === true && process.env.NO_COLOR === undefined;

/** Replaces the last `drawn` lines on a terminal by `lines`, each cut to the terminal's width. */
export const drawAgain = (drawn: number, lines: readonly string[]): void => {
  const columns = (process.stderr.columns || 80) - 1;
  const cut = lines.map((text) => `${printable(text).replaceAll("\n", " ").slice(0, columns)}\n`);
  process.stderr.write(`${drawn === 0 ? "" : `\u001b[${drawn}A\u001b[J`}${cut.join("")}`);
};
