/**
 * The one writer to stdout and stderr. Whatever is printed may quote a server, a file or a variable: secrets are masked, what a
 * terminal obeys is taken out, and no line is a command to the CI that records it. Colours of our own are added by whoever
 * composes a text from cleaned parts.
 */
import { clean, cleanValue } from "../../contract/foreign-text.ts";
import { redactor } from "../../supervision/redaction.ts";

/** The colours of `report/terminal.ts`, and no other sequence. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: what begins a colour
const OUR_COLOUR = /\u001b\[(?:0|2|1;3[123])m/g;

/** GitHub and Gitea read `::name` at the start of a line; `##[` (GitHub, Azure), `##vso[` and `##teamcity[` stand anywhere in one. */
const COMMAND_AT_START = /^(\s*):(?=:)/gm;
const COMMAND_ANYWHERE = /#(?=#(?:vso|teamcity)?\[)/gi;

/** As it may be printed. */
export const printable = (text: string): string =>
  clean(redactor.redact(text)).replace(COMMAND_AT_START, "$1: ").replace(COMMAND_ANYWHERE, "# ");

/** The same of a value, as JSON: no line of it begins with a text. */
export const printableJson = (value: unknown): string =>
  JSON.stringify(cleanValue(redactor.redactValue(value)), null, 2).replace(COMMAND_ANYWHERE, "\\u0023");

const line = (text: string): string => (text.endsWith("\n") ? text : `${text}\n`);

/** A result, on stdout. */
export const printResult = (text: string): void => void process.stdout.write(line(printable(text)));

export const printJson = (value: unknown): void => void process.stdout.write(line(printableJson(value)));

/** What a command answers: for programs with `--json`, or for people. */
export type Shown = { document: unknown; lines: readonly string[] };

export const printShown = (isJson: boolean | undefined, { document, lines }: Shown): void =>
  isJson === true ? printJson(document) : printResult(lines.join("\n"));

/** For people, on stderr. */
export const printNote = (text: string): void => void process.stderr.write(line(printable(text)));

/** The same of a text whose foreign parts are clean already, with our colours in between. */
export const printPainted = (text: string): void => {
  const colours = [...(text.match(OUR_COLOUR) ?? []), ""];
  const parts = text.split(OUR_COLOUR).map(printable);
  process.stderr.write(line(parts.map((part, i) => part + colours[i]).join("")));
};

export const isTerminal = (): boolean => process.stderr.isTTY === true && process.env.NO_COLOR === undefined;

/** On a terminal: takes away the `drawn` lines that stand last and puts these in their place, each cut to the width there is. */
export const drawAgain = (drawn: number, lines: readonly string[]): void => {
  const columns = (process.stderr.columns ?? 80) - 1;
  const cut = lines.map((text) => `${printable(text).replaceAll("\n", " ").slice(0, columns)}\n`);
  process.stderr.write(`${drawn === 0 ? "" : `\u001b[${drawn}A\u001b[J`}${cut.join("")}`);
};
