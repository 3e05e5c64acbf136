/** Parses a line of an access log into members or columns, and the notations of a moment. Nothing is guessed. */
import { parseJson } from "../../contract/envelopes.ts";

/** What the directives above a line of a W3C log say about the line. */
type Directives = {
  readonly columns: readonly string[];
  readonly software: string;
  /** The program that wrote the log, by its columns; programs give one column name different meanings. */
  readonly writer: "cloudfront" | "iis" | "other";
  /** The day of lines that have a time alone (`#Date`), as `2026-10-10`. */
  readonly date: string | null;
};

const writerOf = (columns: readonly string[], software: string): Directives["writer"] => {
  if (columns.some((name) => name.startsWith("x-edge-"))) return "cloudfront";
  const isOfIis = (name: string): boolean =>
    /^(?:sc-win32-status|sc-substatus|s-(?:sitename|computername|ip|port))$/.test(name);
  return /Microsoft/i.test(software) || columns.some(isOfIis) ? "iis" : "other";
};

/** Returns the directives after a line that begins with `#`; lines with other names are comments. */
export const directed = (known: Directives | null, line: string): Directives | null => {
  const [, name, value = ""] = /^#(Fields|Software|Date):[ \t]*(.*)$/i.exec(line) ?? [];
  if (name === undefined) return known;
  let { columns = [], software = "", date = null } = known ?? {};
  if (/^f/i.test(name)) columns = value.trim().split(/\s+/);
  else if (/^s/i.test(name)) software = value;
  else date = /^\d{4}-\d\d-\d\d/.exec(value)?.[0] ?? null;
  return { columns, software, date, writer: writerOf(columns, software) };
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

const PREFIXES: readonly RegExp[] = [
  // Docker Compose, Kubernetes (CRI).
  /^[\w.-]+\s+\| /,
  /^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) (?:stdout|stderr) [FP] /,
  // Syslog: RFC 5424, RFC 3164 and what rsyslog writes.
  /^(?:<\d{1,3}>)?1 \S+ \S+ \S+ \S+ \S+ (?:-|(?:\[[^\]]*\])+) (?:\ufeff)?/,
  /^(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)) (?:\S+ )?[^\s:[\]]+(?:\[[^\]]*\])?: ?/,
  // `kubectl logs --timestamps`, exports of CloudWatch.
  /^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)\s+(?=\S)/,
];

export class LogLine {
  readonly text: string;
  readonly directives: Directives | null;
  readonly fields: Fields | null;
  #inner: LogLine | null | undefined;

  constructor(text: string, directives: Directives | null) {
    this.text = text;
    this.directives = directives;
    this.fields = text.startsWith("{")
      ? ((parseJson(text) ?? parseJson(repaired(text)) ?? null) as Fields | null)
      : null;
  }

  /** The line without what a container or syslog wrote around it; `null` if nothing was. */
  get inner(): LogLine | null {
    if (this.#inner !== undefined) return this.#inner;
    const { log, stream } = this.text.startsWith('{"log":') ? (this.fields ?? {}) : {};
    const isWrapped = typeof log === "string" && typeof stream === "string";
    const text = isWrapped ? log.trimEnd() : PREFIXES.reduce((rest, prefix) => rest.replace(prefix, ""), this.text);
    this.#inner = text === this.text ? null : new LogLine(text, this.directives);
    return this.#inner;
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

  column(name: string): string | undefined {
    const at = this.directives?.columns.indexOf(name) ?? -1;
    return at < 0 ? undefined : this.text.split(this.text.includes("\t") ? "\t" : / +/)[at];
  }
}

/** `zoned`: the text states its zone; without one it is taken as UTC. */
export type Moment = { readonly ms: number; readonly zoned: boolean };

/** Patterns of dates: HAProxy's, the Common Log Format's, ISO 8601 and RFC 3339. */
export const CLF_WITHOUT_ZONE = String.raw`\d{2}\/[A-Za-z]{3}\/\d{4}:\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?`;
export const CLF = String.raw`${CLF_WITHOUT_ZONE} [+-]\d{4}`;
const ISO_ZONE = String.raw`Z| ?[+-]\d{2}:?\d{2}|[+-]\d{2}| (?:UTC|GMT)`;
export const ISO = String.raw`\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:${ISO_ZONE})?`;

const ISO_PARTS = new RegExp(
  String.raw`^(\d{4})-(\d\d)-(\d\d)[T \t](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(${ISO_ZONE})?$`,
);
const CLF_PARTS = /^(\d\d)\/([A-Za-z]{3})\/(\d{4}):(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?: ([+-]\d{4}))?$/;
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
