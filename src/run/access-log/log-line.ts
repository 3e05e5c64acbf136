/** One line of a log, taken apart as far as a format asks for it, and at most once. */

/** What the directives of a W3C log above a line say of it. */
export type Directives = {
  /** Names of the columns (`#Fields`). */
  readonly columns: readonly string[];
  readonly software: string;
  /** Who wrote them, by their columns: what they call the same is not the same. */
  readonly writer: "cloudfront" | "iis" | "other";
  /** The day of lines that have a time alone (`#Date`), as `2026-10-10`. */
  readonly date: string | null;
};

export const NO_DIRECTIVES: Directives = { columns: [], software: "", writer: "other", date: null };

const writerOf = (columns: readonly string[], software: string): Directives["writer"] => {
  if (columns.some((name) => name.startsWith("x-edge-"))) return "cloudfront";
  const isIis =
    /Microsoft/i.test(software) ||
    columns.some((name) => /^(?:sc-win32-status|sc-substatus|s-(?:sitename|computername|ip|port))$/.test(name));
  return isIis ? "iis" : "other";
};

/** What is known after this line, which begins with `#`. Everything but these directives is a comment. */
export const directed = (known: Directives | null, line: string): Directives | null => {
  const found = /^#(Fields|Software|Date):[ \t]*(.*)$/i.exec(line);
  if (found === null) return known;
  const { columns, software, date } = known ?? NO_DIRECTIVES;
  const [, name, value] = found as unknown as [string, string, string];
  const changed = {
    columns: /^f/i.test(name) ? value.trim().split(/\s+/) : columns,
    software: /^s/i.test(name) ? value : software,
    date: /^d/i.test(name) ? (/^\d{4}-\d\d-\d\d/.exec(value)?.[0] ?? null) : date,
  };
  return { ...changed, writer: writerOf(changed.columns, changed.software) };
};

/** A value of nginx that is no JSON: nothing or a dash for a number that is not known, several of as many servers. Bounded, so that it is linear. */
const NO_NUMBER = /:\s{0,4}(?:-|[\d.]{0,24})(?:\s{0,4}[,:]\s{0,4}(?:-|[\d.]{1,24})){0,32}\s{0,4}(?=[,}])/g;

/** nginx without `escape=json` writes `\x22` as well. */
const repaired = (text: string): string =>
  text
    .replace(/\\x([0-9A-Fa-f]{2})/g, "\\u00$1")
    .replace(NO_NUMBER, (value) => (/^:\s*[\d.]+\s*$/.test(value) ? value : ":null"));

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};

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

/** The line without what a container or syslog put in front of it; `null` where nothing stands in front. */
const unwrapped = (text: string): string | null => {
  let rest = text;
  for (const prefix of PREFIXES) rest = rest.replace(prefix, "");
  return rest === text ? null : rest;
};

export class LogLine {
  readonly text: string;
  readonly directives: Directives | null;
  #fields: Record<string, unknown> | null | undefined;
  #inner: LogLine | null | undefined;
  #cells: readonly string[] | undefined;

  constructor(text: string, directives: Directives | null) {
    this.text = text;
    this.directives = directives;
  }

  /** The members of a JSON line. */
  get fields(): Record<string, unknown> | null {
    if (this.#fields !== undefined) return this.#fields;
    const value = this.text.startsWith("{") ? (parsed(this.text) ?? parsed(repaired(this.text))) : null;
    this.#fields = typeof value === "object" ? (value as Record<string, unknown> | null) : null;
    return this.#fields;
  }

  /** The line inside of what a container or syslog wrote around it. */
  get inner(): LogLine | null {
    if (this.#inner !== undefined) return this.#inner;
    const { log, stream } = this.text.startsWith('{"log":') ? (this.fields ?? {}) : {};
    const text = typeof log === "string" && typeof stream === "string" ? log.trimEnd() : unwrapped(this.text);
    this.#inner = text === null ? null : new LogLine(text, this.directives);
    return this.#inner;
  }

  /** A member by its name, or by its path such as `request.started_at`. */
  field(name: string): unknown {
    const { fields } = this;
    if (fields === null) return undefined;
    if (Object.hasOwn(fields, name)) return fields[name];
    let value: unknown = fields;
    for (const part of name.split(".")) {
      if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
      value = (value as Record<string, unknown>)[part];
    }
    return value;
  }

  /** A column of a W3C log. */
  column(name: string): string | undefined {
    const at = this.directives?.columns.indexOf(name) ?? -1;
    if (at < 0) return undefined;
    this.#cells ??= this.text.split(this.text.includes("\t") ? "\t" : / +/);
    return this.#cells[at];
  }
}
