/** Cuts JSON documents into the records they hold, as they come, so that a large export is never in memory as a whole. */

/** Where exports keep their records: the names on the way to the array. Empty: the document itself is the array. */
const RECORDS_AT: ReadonlySet<string> = new Set([
  "",
  // Azure Monitor, CloudWatch, Datadog, and APIs that list.
  ..."records events logEvents logs entries items data spans".split(" "),
  // HAR; Elasticsearch; Loki; OpenTelemetry.
  ..."log.entries hits.hits data.result.values resourceSpans.scopeSpans.spans resourceLogs.scopeLogs.logRecords".split(
    " ",
  ),
]);

/** One of these names, before an array, stands in every line that holds records. */
const HOLDS_RECORDS =
  /"(?:records|events|logEvents|logs|entries|items|data|spans|hits|values|logRecords)"\s{0,4}:\s{0,4}\[/;

export const mayHoldRecords = (line: string): boolean => HOLDS_RECORDS.test(line);

/** Reports whether a file that begins so is a JSON document of many lines, or of one that is longer than `head`. */
export const isDocument = (head: string): boolean => {
  const text = head.replace(/^[\0\ufeff\s]+/, "");
  const first = (/^.*/.exec(text)?.[0] ?? "").trimEnd();
  return /^\[\s*(?:\{|$)/.test(text) || (first.startsWith("{") && !/\},?$/.test(first));
};

/** A record or document without an end would fill the memory; of a longer one the beginning is passed on. */
const TEXT_MAX_CHARS = 64 << 20;
const BEGINNING_CHARS = 4096;

const NEXT_DOCUMENT = /[^\s,\]}]/g;
const STRUCTURE = /["{}[\],]/g;
const END_OF_TEXT = /["\\\n]/g;

export class JsonRecords {
  readonly #onText: (text: string) => void;
  #held = "";
  #at = 0;
  /** The containers that are open around `#at`: of an object the name of its member, of an array `null`. */
  #open: (string | null)[] = [];
  /** Where the document or record begins that is kept, or -1; `#around` containers are open around it. */
  #from = -1;
  #around = 0;
  #hasRecords = false;
  #isNameNext = false;
  #nameFrom = -1;
  #isInText = false;

  /** `onText` is given each record; a document without known records as a whole; and lines between documents. */
  constructor(onText: (text: string) => void) {
    this.#onText = onText;
  }

  get isComplete(): boolean {
    return this.#open.length === 0;
  }

  push(chunk: string): void {
    this.#held += chunk;
    while (this.#at < this.#held.length) {
      const isAtRest = this.#open.length === 0 && !this.#betweenDocuments();
      if (isAtRest || (this.#isInText ? !this.#text() : !this.#structure())) break;
    }
    if (this.#from >= 0 && this.#held.length - this.#from > TEXT_MAX_CHARS) this.#give(this.#from + BEGINNING_CHARS);
    const keptFrom = [this.#from, this.#nameFrom, this.#at].find((from) => from >= 0) as number;
    this.#held = this.#held.slice(keptFrom);
    this.#at -= keptFrom;
    if (this.#from >= 0) this.#from -= keptFrom;
    if (this.#nameFrom >= 0) this.#nameFrom -= keptFrom;
  }

  end(): void {
    if (this.isComplete) this.push("\n");
  }

  #give(to: number): void {
    this.#onText(this.#held.slice(this.#from, to));
    this.#from = -1;
  }

  #next(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#held);
    this.#at = found === null ? this.#held.length : found.index;
    return found?.[0] ?? null;
  }

  /** Goes to the next document. Returns `false` if that has not come. */
  #betweenDocuments(): boolean {
    const next = this.#next(NEXT_DOCUMENT);
    if (next === null) return false;
    if (next === "{" || next === "[") {
      this.#from = this.#at;
      this.#around = 0;
      this.#hasRecords = false;
      return true;
    }
    const end = this.#held.indexOf("\n", this.#at);
    if (end === -1) return false;
    this.#onText(this.#held.slice(this.#at, end));
    this.#at = end;
    return this.#betweenDocuments();
  }

  /** Goes to the end of a text in quotes. A line that ends within one is broken: what follows is read anew. */
  #text(): boolean {
    const next = this.#next(END_OF_TEXT);
    if (next === null) return false;
    if (next === "\\") {
      // The escaped character may come with the next chunk.
      if (this.#at + 1 === this.#held.length) return false;
      this.#at += 2;
      return true;
    }
    if (next === "\n") {
      if (this.#from < 0) this.#from = Math.max(0, this.#nameFrom);
      this.#give(this.#at);
      this.#open = [];
    } else if (this.#isNameNext) this.#open[this.#open.length - 1] = this.#held.slice(this.#nameFrom, this.#at);
    this.#isNameNext = false;
    this.#nameFrom = -1;
    this.#isInText = false;
    this.#at += 1;
    return true;
  }

  #structure(): boolean {
    const next = this.#next(STRUCTURE);
    if (next === null) return false;
    if (next === '"') {
      this.#isInText = true;
      if (this.#isNameNext) this.#nameFrom = this.#at + 1;
    } else if (next === ",") this.#isNameNext = this.#open.at(-1) !== null;
    else if (next === "{" || next === "[") this.#opens(next);
    else this.#closes();
    this.#at += 1;
    return true;
  }

  #opens(bracket: string): void {
    const isElement = this.#open.at(-1) === null && this.#around === 0;
    const path = isElement ? this.#open.filter((name) => name !== null).join(".") : "";
    if (isElement && RECORDS_AT.has(path) && (bracket === "{" || path.endsWith("values"))) {
      this.#from = this.#at;
      this.#around = this.#open.length;
      this.#hasRecords = true;
    }
    this.#open.push(bracket === "{" ? "" : null);
    this.#isNameNext = bracket === "{";
  }

  #closes(): void {
    this.#open.pop();
    this.#isNameNext = false;
    const isDocumentEnd = this.#open.length === 0;
    if (this.#open.length !== this.#around && !isDocumentEnd) return;
    const isRecord = this.#around > 0;
    if (this.#from >= 0 && (isRecord || !this.#hasRecords)) this.#give(this.#at + 1);
    this.#from = -1;
    this.#around = 0;
  }
}
