/** Escapes foreign texts, so that they can neither break a document nor act in it. */
import { clean } from "../contract/foreign-text.ts";

const BREAKS = /[\t\n\r\u0085\u2028\u2029]+/g;
export const oneLine = (text: string): string => clean(text.replace(BREAKS, " ")).trim();

/** Cuts a text to `max` characters, the last of them an ellipsis. Never cuts a character in half. */
export const clip = (text: string, max: number): string => {
  if (text.length <= max) return text;
  const characters = [...text];
  return characters.length <= max ? text : `${characters.slice(0, max - 1).join("")}…`;
};

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Escapes text and quoted attributes of HTML and XML. */
export const escapeHtml = (text: string): string => clean(text).replace(/[&<>"']/g, (c) => ENTITIES[c]!);

/** Escapes as `escapeHtml`, and keeps line breaks in attributes, which XML would turn into spaces. */
export const escapeXml = (text: string): string => escapeHtml(text).replaceAll("\n", "&#10;").replaceAll("\t", "&#9;");

/** Escapes text and table cells of GitHub-flavoured Markdown: no markup, HTML, new cell, new line, link or mention. */
export const escapeMarkdown = (text: string): string =>
  oneLine(text)
    .replace(/[\\`*[\]|~#!]/g, "\\$&")
    // Inside a word (`b2b_overloaded`) an underscore is only itself.
    .replace(/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, "\\_")
    .replace(/[&<>]/g, (c) => ENTITIES[c]!)
    // A bare address would be a link.
    .replaceAll("://", ":\\//")
    .replace(/\bwww\./gi, (www) => `${www.slice(0, -1)}\\.`)
    // GitHub looks for mentions in the rendered page, where a backslash is no longer there.
    .replace(/@(?=\w)/g, "\uff20");

/** A code span that is safe in a table cell; empty for an empty text. */
export const markdownCode = (text: string): string => {
  const code = oneLine(text).replaceAll("`", "'").replaceAll("|", "\\|");
  return code === "" ? "" : `\`${code}\``;
};

export const escapeLabel = (text: string): string =>
  clean(text).replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");

export const utf8Bytes = (text: string): number => {
  let bytes = text.length;
  for (const [character] of text.matchAll(/[^\0-\x7f]/gu)) bytes += character < "\u0800" ? 1 : 2;
  return bytes;
};
