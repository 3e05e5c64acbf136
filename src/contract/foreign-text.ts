/**
 * Makes foreign text safe to show: a name becomes a word, or a length and a hash; a value a number or a safe name; a
 * body its shape. So no report contains a key that a hostile server sends back encoded, and no answer fills memory.
 * Judges compare values before they are shown.
 */
import { counted } from "./lists.ts";

export const EVENT_NAMES_MOST = 32;
/** The most distinct codes outside the specification kept by one process. */
export const CODES_MOST = 100;
export const OTHER_CODES = "other_codes";
/** The longest refusal body that is parsed, in characters; every envelope of the contract is far shorter. */
export const REFUSAL_BODY_MOST = 16 * 1024;

const NAME = /^[a-z0-9_]{1,64}$/;
/** Matches signs of a key: 25 letters, 16 mixed with digits, three changes, nine digits, six short pieces in a row. */
const NO_WORD =
  /[a-z]{25,}|(?=[a-z]*\d)[a-z0-9]{16,}|[a-z]\d+[a-z]+\d|\d[a-z]+\d+[a-z]|(?:\d\D*){9}|(?:(?:^|_)[a-z0-9]{1,2}(?![a-z0-9])){6}/;
/** Matches an earlier result of this file, which stays as it is. */
const MADE_HERE = /^other_\d{1,9}_[0-9a-f]{4}$/;
/** Reports whether a text may be a word in any case, rather than a key or an encoded text. */
export const isWord = (text: string): boolean => !NO_WORD.test(text.toLowerCase());
/** Bounds the cost of hashing a text of millions of characters. */
const HASHED_MOST = 4096;

/** FNV-1a, 32 bits: spreads short texts well and needs no library. Not for secrets. */
export const fnv1a = (text: string): number => {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
};

/** Four hexadecimal digits: enough to compare two texts, too few to recover one. */
const hashOf = (text: string): string => {
  const hash = fnv1a(text.slice(0, HASHED_MOST));
  return ((hash ^ (hash >>> 16)) & 0xffff).toString(16).padStart(4, "0");
};

/** `__proto__`, `constructor`: such a field name would reach into every object. */
const isBuiltIn = (text: string): boolean => text in Object.prototype;

/** The name of a subcode, an event or a field: a word as it is, anything else as `other_<length>_<hash>`. */
export const foreignName = (text: string): string =>
  MADE_HERE.test(text) || (NAME.test(text) && !NO_WORD.test(text) && !isBuiltIn(text))
    ? text
    : `other_${text.length}_${hashOf(text)}`;

/** A field of an answer: numbers as numbers, texts as names. */
export const foreignValue = (value: unknown): unknown => {
  if (typeof value === "string") return foreignName(value);
  if (Array.isArray(value)) return `list_${value.length}`;
  if (typeof value === "object" && value !== null) return `object_${Object.keys(value).length}`;
  return value;
};

/** Shows texts of this form, at most `most` characters long, as they are, and others as names. */
const shown =
  (form: RegExp, most = Number.POSITIVE_INFINITY) =>
  (text: string) =>
    form.test(text) && text.length <= most ? text : foreignName(text);

/** A header with a number or a date, such as `Retry-After`. */
export const foreignMoment = shown(
  /^(?:[+-]?\d{1,10}(?:\.\d{1,6})?|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d{2}:\d{2}:\d{2} GMT)$/,
);

const MEDIA_TYPE = /^[a-z]{1,24}\/[a-z.+-]{1,48}(?: ?; ?charset ?= ?"?[a-z0-9-]{1,16}"?)?$/i;

const headerValue = (text: string, known?: string): string =>
  text === "*" || text === known || (MEDIA_TYPE.test(text) && isWord(text)) ? text : foreignMoment(text);

const HEADER_VALUES_MOST = 4;

/** Shows a header of any other kind. It may also be a media type, `*`, what we sent (`known`), or a list of those. */
export const foreignHeader = (text: string | undefined, known?: string): string => {
  if (text === undefined) return "absent";
  const values = text.split(",").map((value) => value.trim());
  const areShown = values.length <= HEADER_VALUES_MOST && values.every((value) => headerValue(value, known) === value);
  return areShown ? values.join(" and ") : headerValue(text, known);
};

/** An id that a person has to find again, such as that of a key to delete or of a charge. */
export const foreignId = (text: string) =>
  /^[\w.:-]{1,128}$/.test(text) && !isBuiltIn(text) ? text : foreignName(text);

/** A tool's message, such as `proxy not found`: plain words, or length and hash. */
export const foreignSentence = shown(/^(?!.*[A-Za-z]{25})[A-Za-z]+(?:[ ,.:'-]{1,2}[A-Za-z]+)*[.!]?$/, 160);

/** A product and its version: `nginx/1.25.3`. */
export const foreignProduct = shown(
  /^[A-Za-z][A-Za-z._-]{0,24}(?:\/\d{1,4}(?:\.\d{1,5}){0,3})?(?: \([A-Za-z]{1,16}\))?$/,
);

/** The target of a redirect: host and path, each part a word, without user and query. */
export const foreignAddress = (text: string): string => {
  const [, scheme = "", host = "", path = ""] = /^(?:(https?:\/\/)(?:[^/?#@]*@)?([^/?#@]*))?([^?#]*)/i.exec(text) ?? [];
  const shownPart = (part: string): string =>
    part === "" || (/^[\w:~-]{1,40}$/.test(part) && isWord(part)) ? part : foreignName(part);
  const parts = (whole: string, by: string): string => whole.split(by).slice(0, 8).map(shownPart).join(by);
  return scheme + parts(host, ".") + parts(path, "/");
};

/** The prefix of an error after the terminal event, which does not change how the stream ended. */
export const AFTER_TERMINAL = "after the terminal event: ";

const errorCode = shown(/^(?!.*[A-Za-z]{25})[A-Za-z]+(?:[_-][A-Za-z]+)*$/, 48);

/** The name of a header: words and hyphens, as an error code has them. */
export const foreignHeaderName = errorCode;

/** A transport's error code, such as `ECONNRESET`, or length and hash, because some errors quote what they read. */
export const foreignError = (text: string): string =>
  text.startsWith(AFTER_TERMINAL) ? AFTER_TERMINAL + foreignError(text.slice(AFTER_TERMINAL.length)) : errorCode(text);

const SHOWN_FIELDS = 12;
const SHOWN_DEPTH = 3;

/** Describes a foreign value without quoting it: `{detail: a text of 12 characters (#3f9a)}`. */
export const shapeOf = (value: unknown, depth = 0): string => {
  if (typeof value === "string") {
    const name = foreignName(value);
    return name === value ? `"${value}"` : `a text of ${counted(value.length, "character")} (#${hashOf(value)})`;
  }
  if (Array.isArray(value)) {
    const first = value.length === 0 || depth >= SHOWN_DEPTH ? "" : `, the first ${shapeOf(value[0], depth + 1)}`;
    return `a list of ${value.length}${first}`;
  }
  if (typeof value !== "object" || value === null) return value === undefined ? "absent" : String(value);
  const names = Object.keys(value);
  if (depth >= SHOWN_DEPTH) return `an object of ${counted(names.length, "field")}`;
  const shown = names
    .slice(0, SHOWN_FIELDS)
    .map((name) => `${foreignName(name)}: ${shapeOf((value as Record<string, unknown>)[name], depth + 1)}`);
  const more = names.length - shown.length;
  return `{${shown.join(", ")}${more > 0 ? `, and ${counted(more, "more field")}` : ""}}`;
};

export const shapeOfBody = (text: string, json: unknown): string =>
  json === undefined ? `${counted(text.length, "character")} that are no JSON (#${hashOf(text)})` : shapeOf(json);

/** Bounds the number of distinct names; further ones become `beyond`. */
export const distinctNames = (most: number, beyond: string): ((name: string) => string) => {
  const known = new Set<string>();
  return (name) => {
    if (known.has(name)) return name;
    if (known.size >= most) return beyond;
    known.add(name);
    return name;
  };
};

/** Characters that XML forbids, terminals obey or readers misread: direction marks, zero-width characters, tags. */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]|[\p{Cs}\p{Cf}\ufffe\uffff\u115f\u1160\u3164\uffa0\u{e0000}-\u{e0fff}]|\u034f|\u17b4|\u17b5|[\u180b-\u180f]|[\ufe00-\ufe0e]/gu;

export const clean = (text: string) => text.replace(/\r\n?|[\u0085\u2028\u2029]/g, "\n").replace(UNSAFE, "\ufffd");

export const cleanValue = (value: unknown): unknown => {
  if (typeof value === "string") return clean(value);
  if (Array.isArray(value)) return value.map(cleanValue);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [clean(name), cleanValue(one)]));
};
