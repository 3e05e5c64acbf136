/** HTML by template, escaped unless it is already markup: forgetting to escape is then not possible, only refusing to. */
import { escapeHtml } from "../escape.ts";

export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Part = string | number | Markup | null | readonly Part[];

const textOf = (part: Part): string => {
  if (part === null) return "";
  if (part instanceof Markup) return part.text;
  return Array.isArray(part) ? part.map(textOf).join("") : escapeHtml(String(part));
};

/** Strings and numbers are escaped, lists joined, `null` is nothing. Attributes have to stand in double quotes. */
export const html = (strings: TemplateStringsArray, ...parts: Part[]): Markup =>
  new Markup(strings.reduce((text, string, i) => text + textOf(parts[i - 1] ?? null) + string));
