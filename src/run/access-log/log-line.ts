/** Parses a line of an access log into members or columns, and the notations of a moment. Nothing is guessed. */
import { isObject, parseJson } from "../../contract/refusals.ts";

/** The names of columns that stand above the lines: directives of a W3C log, or the header of a CSV file. */
export type Header = {
  readonly columns: readonly string[];
  readonly software: string;
  /** The program that wrote the log, by its columns; programs give one column name different meanings. */
  readonly writer: "cloudfront" | "iis" | "other" | "csv";
  /** The day of lines that have a time alone (`#Date`), as `2026-10-10`. */
  readonly date: string | null;
  /** The header of a CSV file as it stands there, and again where files were joined. */
  readonly above?: string;
  cellsOf(line: string): readonly string[];
};

const writerOf = (columns: readonly string[], software: string): Header["writer"] => {
  if (columns.some((name) => name.startsWith("x-edge-"))) return "cloudfront";
  const isOfIis = (name: string) => /^(?:sc-win32-status|sc-substatus|s-(?:sitename|computername|ip|port))$/.test(name);
  return /Microsoft/i.test(software) || columns.some(isOfIis) ? "iis" : "other";
};

/** A quoted field may hold blanks. */
const w3cCells = (line: string) =>
  line.includes("\t") ? line.split("\t") : (line.match(/"[^"]*"(?=\s|$)|\S+/g) ?? []);

/** Returns the header after a line that begins with `#`; lines with other names are comments. */
export const directed = (known: Header | null, line: string): Header | null => {
  const [, name, value = ""] = /^#(Fields|Software|Date):[ \t]*(.*)$/i.exec(line) ?? [];
  if (name === undefined) return known;
  let { columns = [], software = "", date = null } = known ?? {};
  if (/^f/i.test(name)) columns = value.trim().split(/\s+/);
  else if (/^s/i.test(name)) software = value;
  else date = /^\d{4}-\d\d-\d\d/.exec(value)?.[0] ?? null;
  return { columns, software, date, writer: writerOf(columns, software), cellsOf: w3cCells };
};

/** Cuts a line of CSV (RFC 4180): a delimiter within quotes is part of its cell. */
const csvCells = (line: string, delimiter: string): string[] => {
  if (!line.includes('"')) return line.split(delimiter);
  const cells: string[] = [];
  for (let at = 0; at <= line.length; ) {
    let end = at;
    // Two quotes within quotes stand for one.
    while (line[end] === '"') end = (line.indexOf('"', end + 1) + 1 || line.length) as number;
    const isQuoted = end > at;
    end = line.indexOf(delimiter, end);
    if (end === -1) end = line.length;
    const cell = line.slice(at, end).trim();
    cells.push(isQuoted ? cell.replace(/^"|"$/g, "").replaceAll('""', '"') : cell);
    at = end + 1;
  }
  return cells;
};

/** A name of a column that may hold the moment of a call. */
const TIME_COLUMN = /time|date|^@?ts?$/i;

/** Reads the first line of a CSV file as its header: names alone, one of them of a time or `timeField`; else `null`. */
export const csvHeader = (line: string, timeField = ""): Header | null => {
  const delimiter = /[,;\t|]/.exec(line)?.[0];
  if (delimiter === undefined) return null;
  const columns = csvCells(line, delimiter);
  const isName = (cell: string): boolean => /^[A-Za-z_@][\w@.()/ -]{0,63}$/.test(cell);
  const isOfTime = (cell: string): boolean => cell === timeField || TIME_COLUMN.test(cell);
  if (!columns.every(isName) || !columns.some(isOfTime)) return null;
  return { columns, software: "", date: null, writer: "csv", above: line, cellsOf: (one) => csvCells(one, delimiter) };
};

/** nginx values that are not JSON: nothing, a dash, or one number per upstream. Bounded, so that matching is linear. */
const NO_NUMBER = /:\s{0,4}(?:-|[\d.]{0,24})(?:\s{0,4}[,:]\s{0,4}(?:-|[\d.]{1,24})){0,32}\s{0,4}(?=[,}])/g;

/** Zeros in front of a number, which JSON forbids: HAProxy writes milliseconds with three digits. */
const LEADING_ZEROS = /(?<=":\s{0,4})0{1,8}(?=\d{1,9}\s{0,4}[,}])/g;

/** Makes JSON of a line that nginx wrote without `escape=json`, which may hold `\x22` and the values above. */
const repaired = (text: string): string =>
  text
    .replace(LEADING_ZEROS, "")
    .replace(/\\x([0-9A-Fa-f]{2})/g, "\\u00$1")
    .replace(NO_NUMBER, (value) => (/^:\s*[\d.]+\s*$/.test(value) ? value : ":null"));

type Fields = Readonly<Record<string, unknown>>;

const ISO_PREFIX = String.raw`\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)`;

/** What other programs write before a line. Each is taken away in turn. */
const PREFIXES: readonly RegExp[] = [
  // Anything may stand before JSON, such as a tag of Fluentd, stern, journalctl or `aws logs tail`.
  /^[^{]*(?=\{".*\}$)/s,
  // Docker Compose, pm2, and Kubernetes (`kubectl logs --prefix`, CRI).
  /^(?:\d+\|)?[\w.-]+\s+\| /,
  /^\[pod\/\S+\] /,
  new RegExp(`^${ISO_PREFIX} (?:stdout|stderr) [FP] `),
  // Syslog: RFC 5424, RFC 3164 and what rsyslog writes.
  /^(?:\d{1,6} )?(?:<\d{1,3}>)?1 \S+ \S+ \S+ \S+ \S+ (?:-|(?:\[(?:[^\]\\]|\\.)*\])+) (?:\ufeff)?/,
  new RegExp(
    String.raw`^(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|${ISO_PREFIX}) (?:\S+ )?[^\s:[\]]+(?:\[[^\]]*\])?: ?`,
  ),
  // `kubectl logs --timestamps`, exports of CloudWatch, pm2; behind it the labels of Loki.
  new RegExp(String.raw`^(?:${ISO_PREFIX}|\d{4}-\d\d-\d\dT[\d:]{8}:)\s+(?=\S)`),
  /^\{\w+="[^}]*\} /,
];

/** Members in which collectors and exports keep a line: as text, or (the second list) taken apart. */
const WRAPPED_TEXT = ["log", "message", "MESSAGE", "Message", "line", "_raw", "@message", "textPayload", "1"];
const WRAPPED_FIELDS = ["_source", "result", "jsonPayload"];

/** A line that a container runtime cut: whose pieces it belongs to, the text, and whether the line ends with it. */
export type Piece = { readonly of: string; readonly text: string; readonly isLast: boolean };

/** Docker cuts lines after this many bytes; a character that is cut itself counts up to three bytes less. */
const DOCKER_CUT_BYTES = 16 * 1024 - 3;
const CRI = new RegExp(`^(${ISO_PREFIX} (stdout|stderr) ([FP]) )(.*)$`, "s");

type Notation = "json" | "csv" | "logfmt";

/** The beginning of `key=value` fields (logfmt) or of LTSV, and each of their fields. */
const LOGFMT = /^[\w.@-]+=/;
const LOGFMT_FIELD = /(?:^|\s)([\w.@-]+)=(?:"((?:[^"\\]|\\.)*)"|(\S*))/g;
const LTSV = /^[\w.-]+:[^\t]*\t[\w.-]+:/;

// biome-ignore lint/suspicious/noControlCharactersInRegex: the sequences begin with one
const COLOURS = /\x1b\[[\d;]*m/g;

export class LogLine {
  readonly text: string;
  readonly header: Header | null;
  #fields: Fields | null | undefined;
  #inner: LogLine | null | undefined;

  constructor(text: string, header: Header | null, fields?: Fields) {
    this.text = text.includes("\x1b") ? text.replace(COLOURS, "") : text;
    this.header = header;
    this.#fields = fields;
  }

  get notation(): Notation | null {
    if (/^(?:\{|\["\d)/.test(this.text)) return "json";
    if (this.header !== null) return "csv";
    return LOGFMT.test(this.text) || LTSV.test(this.text) ? "logfmt" : null;
  }

  /** The named fields of the line in any notation; `null` if it has none. */
  get fields(): Fields | null {
    if (this.#fields === undefined) this.#fields = this.#read();
    return this.#fields;
  }

  #read(): Fields | null {
    const { text, header } = this;
    switch (this.notation) {
      case "json":
        return (parseJson(text) ?? parseJson(repaired(text)) ?? null) as Fields | null;
      case "csv": {
        const { columns, cellsOf } = header as Header;
        return Object.fromEntries(cellsOf(text).map((cell, k) => [columns[k] ?? `${k + 1}`, cell]));
      }
      case "logfmt": {
        if (!LOGFMT.test(text)) return Object.fromEntries(text.split("\t").map((field) => field.split(/:(.*)/s)));
        return Object.fromEntries(
          [...text.matchAll(LOGFMT_FIELD)].map(([, name, quoted, bare]) => [name, quoted ?? bare]),
        );
      }
      case null:
        return null;
    }
  }

  /** The line without what a container, syslog, a collector or an export wrote around it; `null` if nothing was. */
  get inner(): LogLine | null {
    if (this.#inner === undefined) this.#inner = this.#unwrapped();
    return this.#inner;
  }

  #unwrapped(): LogLine | null {
    const { text, fields, header } = this;
    for (const name of fields === null ? [] : WRAPPED_TEXT) {
      const value = this.field(name);
      // systemd writes bytes that are no printable text as numbers.
      const inner = Array.isArray(value) ? Buffer.from(value).toString() : value;
      if (typeof inner === "string") return new LogLine(inner.trim(), null);
    }
    for (const name of fields === null ? [] : WRAPPED_FIELDS) {
      const value = this.field(name);
      if (isObject(value)) return new LogLine(JSON.stringify(value), null, value);
    }
    const rest = PREFIXES.reduce((before, prefix) => before.replace(prefix, ""), text);
    return rest === text ? null : new LogLine(rest, header);
  }

  /** What a container runtime kept of a line that it may have cut; `null` for a line that is whole. */
  get piece(): Piece | null {
    const [, , stream, flag, rest] = CRI.exec(this.text) ?? [];
    if (rest !== undefined) return { of: `${stream}`, text: rest, isLast: flag === "F" };
    const { fields } = this;
    if (fields === null) return null;
    const { log, message, MESSAGE, stream: of, logtag } = fields;
    const text = [log, message, MESSAGE].find((one) => typeof one === "string");
    if (text === undefined) return null;
    const { partial_message: isOfFluentd, partial_id: id, partial_last: last } = fields;
    if (isOfFluentd !== undefined) return { of: `${id}`, text, isLast: last === "true" };
    const { CONTAINER_ID_FULL: container, CONTAINER_PARTIAL_MESSAGE: cut, CONTAINER_PARTIAL_LAST: end } = fields;
    if (container !== undefined) return { of: `${container}`, text, isLast: cut !== "true" || end === "true" };
    if (logtag === "P" || logtag === "F") return { of: `${of}`, text, isLast: logtag === "F" };
    if (typeof log !== "string" || typeof of !== "string") return null;
    const isCut = !log.endsWith("\n") && Buffer.byteLength(log) >= DOCKER_CUT_BYTES;
    return { of, text: log, isLast: !isCut };
  }

  joined(text: string): LogLine {
    const [, prefix] = CRI.exec(this.text) ?? [];
    if (prefix !== undefined) return new LogLine(prefix + text, this.header);
    const line = new LogLine(this.text, this.header, this.fields as Fields);
    line.#inner = new LogLine(text.trim(), null);
    return line;
  }

  /** A member by its name, or by its path such as `request.started_at`. */
  field(name: string): unknown {
    const { fields } = this;
    if (fields === null || Object.hasOwn(fields, name)) return fields?.[name];
    let value: unknown = fields;
    for (const part of name.split(".")) {
      if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
      value = (value as Fields)[part];
    }
    return value;
  }

  /** A member by its name in capitals or small letters. */
  named(name: string): unknown {
    const value = this.field(name);
    if (value !== undefined || this.fields === null) return value;
    const found = Object.keys(this.fields).find((one) => one.length === name.length && one.toLowerCase() === name);
    return found === undefined ? undefined : this.fields[found];
  }
}

/** `zoned`: the text states its zone; without one it is taken as UTC. */
export type Moment = { readonly ms: number; readonly zoned: boolean };

/** A log writes dates as HAProxy, Python, the Common Log Format and HTTP do, or as ISO 8601, RFC 3339 and Go (with slashes). */
export const CLF_WITHOUT_ZONE = String.raw`\d{2}[\/ ][A-Za-z]{3}[\/ ]\d{4}[: ]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?`;
export const CLF = String.raw`${CLF_WITHOUT_ZONE} (?:[+-]\d{4}|GMT)`;
const ISO_ZONE = String.raw`Z| ?[+-]\d{2}:?\d{2}|[+-]\d{2}| (?:UTC|GMT)`;
export const ISO = String.raw`\d{4}[-/]\d{2}[-/]\d{2}(?:[T ]| - )\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:${ISO_ZONE})?`;

const ISO_PARTS = new RegExp(
  String.raw`^(\d{4})[-/](\d\d)[-/](\d\d)(?:[T \t]| - )(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(${ISO_ZONE})?$`,
);
const CLF_PARTS =
  /^(?:[A-Z][a-z]{2}, )?(\d\d)[/ ]([A-Za-z]{3})[/ ](\d{4})[: ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?: ([+-]\d{4}|GMT))?$/;
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/** `null` for a date that does not exist, such as 31 April (`Date.UTC` gives 1 May). Second 60 is a leap second. */
export const dateMoment = (text: string): Moment | null => {
  const iso = ISO_PARTS.exec(text);
  const found = iso ?? CLF_PARTS.exec(text);
  if (found === null) return null;
  const [, first, month = "", third, hour, minute, second, fraction = "0", zone] = found;
  const [year, day] = iso === null ? [third, first] : [first, third];
  const at = /^\d/.test(month) ? Number(month) - 1 : MONTHS.indexOf(month.toLowerCase());
  const dayMs = Date.UTC(Number(year), at, Number(day));
  const date = new Date(dayMs);
  if (date.getUTCMonth() !== at || date.getUTCDate() !== Number(day)) return null;
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 60) return null;
  const [, sign, hours = 0, minutes = 0] = /^ ?([+-])(\d\d):?(\d\d)?$/.exec(zone ?? "") ?? [];
  const east = (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
  const s = (Number(hour) * 60 + Number(minute) - east) * 60 + Number(second);
  return { ms: dayMs + s * 1000 + Number(`0.${fraction}`) * 1000, zoned: zone !== undefined };
};

export const UNIT_MS = { s: 1000, ms: 1, us: 1e-3, ns: 1e-6 } as const;
export type Unit = keyof typeof UNIT_MS;

/** A number outside these years is taken for an id or a counter; within them only one unit fits. */
const EPOCH_FROM_MS = Date.UTC(2000, 0);
const EPOCH_TO_MS = Date.UTC(2100, 0);

/** Reads a number of `unit`s since 1970; without `unit`, of the only unit that fits. */
export const epochMoment = (value: number, unit?: Unit): Moment | null => {
  const units = unit === undefined ? Object.values(UNIT_MS) : [UNIT_MS[unit]];
  const ms = units.map((unitMs) => value * unitMs).find((one) => one >= EPOCH_FROM_MS && one < EPOCH_TO_MS);
  return ms === undefined ? null : { ms, zoned: true };
};

/** Reads the moment of a field that is known to hold one, in any notation. */
export const momentOf = (value: unknown): Moment | null => {
  if (typeof value === "number") return epochMoment(value);
  if (typeof value !== "string" || value.length > 64) return null;
  const text = value.replace(/^\[|\]$/g, "");
  return dateMoment(text) ?? (/^\d{9,19}(?:\.\d+)?$/.test(text) ? epochMoment(Number(text)) : null);
};

/** The moment at the beginning of a text, in brackets or quotes too; what follows it is another field. */
const AT_START = new RegExp(`^[["']?(${ISO}|${CLF}|${CLF_WITHOUT_ZONE}|\\d{9,19}(?:\\.\\d+)?)(?=$|[\\s\\]"',;|])`);
export const momentAtStart = (text: string): Moment | null => momentOf(AT_START.exec(text)?.[1]);
