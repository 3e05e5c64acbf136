/** HTML by template literals. Text is escaped unless it is already markup, so that escaping cannot be forgotten. */
import { escapeHtml } from "../escape.ts";

export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Part = string | number | Markup | null | undefined | false | readonly Part[];

const textOf = (part: Part): string => {
  if (part === null || part === undefined || part === false) return "";
  if (part instanceof Markup) return part.text;
  return Array.isArray(part) ? part.map(textOf).join("") : escapeHtml(String(part));
};

/** Escapes strings and numbers, joins lists, and drops `null`, `undefined` and `false`. Attributes need double quotes. */
export const html = (strings: TemplateStringsArray, ...parts: Part[]): Markup =>
  new Markup(strings.reduce((text, string, i) => text + textOf(parts[i - 1]) + string));

/** A command that may break between its words, and not at the hyphens inside them. */
export const words = (text: string): Markup =>
  html`${text.split(" ").map((word, at) => [at > 0 && " ", word.includes("-") ? html`<span>${word}</span>` : word])}`;

/** A sentence in which what stands between backticks is shown as code. */
export const prose = (text: string): Markup =>
  html`${text.split(/`([^`\n]+)`/).map((part, at) => (at % 2 === 1 ? html`<code>${words(part)}</code>` : part))}`;

export const card = (id: string, title: string, ...body: Part[]): Markup =>
  html`<section class="card" id="${id}"><h2>${title}</h2>${body}</section>`;

export const folded = (summary: Part, body: Part) => html`<details><summary>${summary}</summary>${body}</details>`;

export type Head = string | Markup | { number: string | Markup };

export const table = (style: string, heads: readonly Head[], rows: Part): Markup => {
  const cells = heads.map((head) =>
    typeof head === "object" && "number" in head
      ? html`<th class="number">${head.number}</th>`
      : html`<th>${head}</th>`,
  );
  return html`<table class="${style}"><thead><tr>${cells}</tr></thead><tbody>${rows}</tbody></table>`;
};

/** A definition list of names and values, without the entries whose value is `null`. */
export const facts = (style: string, all: readonly (readonly [name: string, text: string | null])[]): Markup => {
  const shown = all.filter(([, text]) => text !== null);
  return html`<dl class="facts${style}">${shown.map(([name, text]) => html`<dt>${name}</dt><dd>${text && prose(text)}</dd>`)}</dl>`;
};

export const codes = (texts: readonly string[], style = ""): Markup =>
  html`<ul class="ids${style}">${texts.map((text) => html`<li><code>${text}</code></li>`)}</ul>`;
