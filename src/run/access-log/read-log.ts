/** Reads an access log into the moments of its calls. Nothing else is kept, so a confidential log can be replayed. */
import { createReadStream, readSync } from "node:fs";
import { basename } from "node:path";
import { pipeline } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { createGunzip, createZstdDecompress } from "node:zlib";
import type { ReplayedLog } from "../../history/run-document.ts";
import { cutLines } from "../../supervision/lines.ts";
import { openUserFile, UserFileError } from "../../supervision/user-file.ts";
import { isDocument, JsonRecords, mayHoldRecords } from "./json-records.ts";
import { generalMoment, LOG_FORMATS, type LogFormat, namedField } from "./log-formats.ts";
import { csvHeader, directed, type Header, LogLine } from "./log-line.ts";

export type LogOptions = {
  /** A name of `LOG_FORMAT_NAMES`; recognised by the lines if absent. */
  format?: string;
  timeField?: string;
  skipUnreadable?: boolean;
};

/** Why a log is not replayed. `line`: a line's number, from 1; `text`: its unchanged text; `path`: of the file, where it is one's. */
export type LogRefusal = { path?: string } & (
  | { code: "format-unknown"; line: number; text: string; lines: number }
  | { code: "unreadable"; format: LogFormat; line: number; text: string; lines: number; unreadable: number }
  | { code: "too-few-calls"; calls: number; lines: number }
  | { code: "too-many-calls"; most: number }
  | { code: "told-twice"; other: string }
  | { code: "span-too-long"; line: number; atMs: number; silenceMs: number; spanMs: number; mostMs: number }
);

/** `atMs`: when the calls came, milliseconds since 1970, ascending. */
export type ReadLog = {
  readonly atMs: readonly number[];
  readonly facts: ReplayedLog;
  /** The first or the last call, whichever is on the side of the longest silence with fewer calls. */
  readonly outermost: { readonly line: number; readonly atMs: number; readonly path: string };
};

/** The format is recognised by the first lines, up to this many; it must read at least half of them. */
const SAMPLE_LINES = 1000;
const SAMPLE_CHARS = 4 * 1024 * 1024;
/** A log with a larger share of unreadable lines is refused: its format is probably another one. */
export const UNREADABLE_SHARE_MAX = 0.01;
/** A program may write so many lines of another kind before its first call, such as its banner; more are another format. */
const STARTUP_LINES_MOST = 50;
/** The most calls of a log: 80 MB of moments. */
const CALLS_MAX = 10_000_000;
/** The longest log: one of more than a year probably has a misplaced line. */
const SPAN_MAX_MS = 366 * 86_400_000;
/** Lines written at the end of a call, or by several workers, may be out of order by this much. */
const ORDER_SLACK_MS = 1000;
/** A step back in time is reported above the first bound; one of `IN_A_ROW` lines or more above the second. */
const STEP_BACK_MS = 60_000;
const STEP_BACK_IN_A_ROW_MS = 5000;
const IN_A_ROW = 10;

/** `depth`: how many wrappings, such as syslog's or a collector's, are taken off a line before it is read. */
type Candidate = { format: LogFormat; depth: number };

/** A collector's export of a container's log of a program with a line of its own has three. */
const DEPTHS = [0, 1, 2, 3];

const lineOf = (line: LogLine, { depth }: Candidate): LogLine | null => {
  let one: LogLine | null = line;
  for (let k = 0; k < depth && one !== null; k++) one = one.inner;
  return one;
};

/** Reports whether a line, or a line within it, is known to tell of no call. */
const tellsOfNoCall = ({ isNoCall }: LogFormat, line: LogLine): boolean =>
  isNoCall !== undefined &&
  (isNoCall(line) || (line.inner !== null && tellsOfNoCall({ isNoCall } as LogFormat, line.inner)));

/**
 * Lists candidates in order: one program's formats before general ones, a whole line before its inner line. Of named
 * fields the innermost go first: those around them may hold the moment at which a collector read the line.
 */
const candidatesOf = ({ format, timeField }: LogOptions): Candidate[] => {
  const isWanted = ({ name, byNameOnly }: LogFormat) => (format === undefined ? byNameOnly !== true : name === format);
  const formats = timeField === undefined ? LOG_FORMATS.filter(isWanted) : [namedField(timeField)];
  return [undefined, "fields", "line"].flatMap((kind) =>
    (kind === "fields" ? DEPTHS.toReversed() : DEPTHS).flatMap((depth) =>
      formats.filter(({ general }) => general === kind).map((one): Candidate => ({ format: one, depth })),
    ),
  );
};

const isWholeSecond = (ms: number): boolean => ms % 1000 === 0;

/** Spreads the calls of each whole second evenly over it, or they would all come at once. Equal values are adjacent. */
const spreadOverSeconds = (atMs: number[]): void => {
  for (let from = 0; from < atMs.length; ) {
    let to = from + 1;
    while (to < atMs.length && atMs[to] === atMs[from]) to += 1;
    const second = atMs[from] as number;
    for (let k = from; k < to && isWholeSecond(second); k++) atMs[k] = second + ((k - from + 0.5) * 1000) / (to - from);
    from = to;
  }
};

/** Finds the largest step back in time, in the order of the lines. */
class ClockWatch {
  #fromMs = Number.POSITIVE_INFINITY;
  #toMs = Number.NEGATIVE_INFINITY;
  #run: { line: number; byMs: number; lines: number; fromMs: number; toMs: number } | null = null;
  largest: { line: number; byMs: number; lines: number; overlapMs: number } | null = null;

  see(ms: number, line: number): void {
    if (ms < this.#toMs - ORDER_SLACK_MS) {
      this.#run ??= { line, byMs: this.#toMs - ms, lines: 0, fromMs: ms, toMs: ms };
      this.#run.lines += 1;
      this.#run.fromMs = Math.min(this.#run.fromMs, ms);
      this.#run.toMs = Math.max(this.#run.toMs, ms);
      return;
    }
    this.endRun(false);
    this.#fromMs = Math.min(this.#fromMs, ms);
    this.#toMs = Math.max(this.#toMs, ms);
  }

  endRun(isLast: boolean): void {
    if (this.#run === null) return;
    const { line, byMs, lines, fromMs, toMs } = this.#run;
    this.#run = null;
    const inARow = lines >= IN_A_ROW || (isLast && lines > 1);
    const isSaid = byMs > STEP_BACK_MS || (inARow && byMs > STEP_BACK_IN_A_ROW_MS);
    const overlapMs = Math.max(0, Math.min(this.#toMs, toMs) - Math.max(this.#fromMs, fromMs));
    this.#fromMs = Math.min(this.#fromMs, fromMs);
    if (isSaid && byMs > (this.largest?.byMs ?? 0)) this.largest = { line, byMs, lines, overlapMs };
  }
}

const seconds = (ms: number): number => Math.round(ms) / 1000;

/** The records of a line that holds many, as collectors send them; `null` for any other line, such as one with a moment. */
const recordsIn = (line: LogLine): string[] | null => {
  if (line.notation !== "json" || !mayHoldRecords(line.text) || generalMoment(line) !== null) return null;
  const found: string[] = [];
  new JsonRecords((record) => found.push(record)).push(line.text);
  return found[0] === line.text ? null : found.flatMap((one) => recordsIn(new LogLine(one, null)) ?? one);
};

export class LogReader {
  readonly #options: LogOptions;
  #sample: { line: LogLine; number: number }[] | null = [];
  #sampleChars = 0;
  #chosen: Candidate | null = null;
  #header: Header | null = null;
  #number = 0;
  /** Lines that a container runtime cut, by what their pieces have in common. */
  readonly #cut = new Map<string, { line: LogLine; number: number; text: string }>();
  readonly #atMs: number[] = [];
  /** Each call's duration if its line holds end and duration, else 0; `null` if no line holds both. */
  #tookMs: number[] | null = null;
  #wholeSeconds = 0;
  #isZoned = true;
  readonly #of = { start: 0, end: 0, logged: 0 };
  #unreadable = 0;
  /** The number of the last line if it lacks its end, as in a log that is copied while it is written; else 0. */
  #unfinished = 0;
  #isUnfinishedUnread = false;
  /** Unreadable lines before the first call. */
  #atStartup = 0;
  #noCalls = 0;
  #firstUnreadable: { line: number; text: string } | null = null;
  #earliest = { atMs: Number.POSITIVE_INFINITY, line: 0, path: "" };
  #latest = { atMs: Number.NEGATIVE_INFINITY, line: 0, path: "" };
  readonly #clock = new ClockWatch();
  refusal: LogRefusal | null = null;

  readonly path: string;

  constructor(options: LogOptions = {}, path = "") {
    this.#options = options;
    this.path = path;
  }

  /** Says that the next line is the last, and that the file ends within it. */
  endsWithinNext(): void {
    this.#unfinished = this.#number + 1;
  }

  see(text: string): void {
    this.#number += 1;
    // Zero bytes precede a line if the log was truncated while it was written (logrotate's copytruncate), or lost power.
    const trimmed = text.replace(/^\0+/, "").trim();
    if (trimmed.startsWith("#")) this.#header = directed(this.#header, trimmed);
    if (trimmed === "" || trimmed.startsWith("#")) return;
    const line = new LogLine(trimmed, this.#header);
    if (this.#number === 1 && this.#header === null) this.#header = csvHeader(trimmed, this.#options.timeField);
    if (this.#header?.above === trimmed) return;
    const records = recordsIn(line);
    if (records === null) this.#whole(line);
    else for (const record of records) this.#whole(new LogLine(record, this.#header));
  }

  #whole(line: LogLine): void {
    const { piece } = line;
    const cut = piece === null ? undefined : this.#cut.get(piece.of);
    if (piece === null || (cut === undefined && piece.isLast)) return void this.#sampled(line, this.#number);
    const { line: first, number, text } = cut ?? { line, number: this.#number, text: "" };
    const joined = text.length > LINE_MAX_CHARS ? text : text + piece.text;
    if (piece.isLast) {
      this.#cut.delete(piece.of);
      this.#sampled(first.joined(joined), number);
    } else this.#cut.set(piece.of, { line: first, number, text: joined });
  }

  #sampled(line: LogLine, number: number): void {
    if (this.#sample === null) return void this.#take(line, number);
    this.#sample.push({ line, number });
    this.#sampleChars += line.text.length;
    if (this.#sample.length >= SAMPLE_LINES || this.#sampleChars >= SAMPLE_CHARS) this.#recognise();
  }

  /** Says why this file is not replayed; `null` if it is, or has no line. */
  #refused(others: readonly LogReader[]): LogRefusal | null {
    for (const { line, number, text } of this.#cut.values()) this.#sampled(line.joined(text), number);
    this.#cut.clear();
    if (this.#sample !== null) this.#recognise();
    this.#clock.endRun(true);
    if (this.#chosen === null || this.refusal !== null) return this.refusal;
    const [calls, unreadable, first] = [this.#atMs.length, this.#unreadable, this.#firstUnreadable];
    const lines = calls + unreadable;
    // If more such lines come first than calls follow, the log has another format, even if the user names this one.
    const atStartup = this.#atStartup <= Math.min(STARTUP_LINES_MOST, calls) ? this.#atStartup : 0;
    const beside = unreadable - atStartup - Number(this.#isUnfinishedUnread);
    if (first !== null && beside > UNREADABLE_SHARE_MAX * lines && this.#options.skipUnreadable !== true) {
      return { code: "unreadable", format: this.#chosen.format, ...first, lines, unreadable };
    }
    const isTwin = (one: LogReader): boolean =>
      one.#atMs.length === calls &&
      one.#earliest.atMs === this.#earliest.atMs &&
      one.#latest.atMs === this.#latest.atMs;
    const twin = calls < 2 ? undefined : others.find(isTwin);
    return twin === undefined ? null : { code: "told-twice", other: twin.path };
  }

  /** Returns the calls of one log, which is one file or several in any order. */
  static end(readers: readonly LogReader[]): ReadLog | LogRefusal {
    for (const [k, one] of readers.entries()) {
      const refusal = one.#refused(readers.slice(0, k));
      if (refusal !== null) return { ...refusal, path: one.path };
    }
    const sum = (of: (one: LogReader) => number): number => readers.reduce((total, one) => total + of(one), 0);
    const [calls, unreadable] = [sum((one) => one.#atMs.length), sum((one) => one.#unreadable)];
    if (calls > CALLS_MAX) return { code: "too-many-calls", most: CALLS_MAX };
    if (calls < 2) return { code: "too-few-calls", calls, lines: calls + unreadable };
    const [ends, ...more] = readers.map((one) => one.#starts());
    const atMs = more.length === 0 ? (ends as number[]) : [ends as number[], ...more].flat().sort((a, b) => a - b);
    const spanMs = (atMs[calls - 1] as number) - (atMs[0] as number);
    let [silenceMs, at] = [0, 0];
    for (let k = 1; k < calls; k++) {
      const ms = (atMs[k] as number) - (atMs[k - 1] as number);
      if (ms > silenceMs) [silenceMs, at] = [ms, k];
    }
    const earliest = readers.map((one) => one.#earliest).reduce((a, b) => (b.atMs < a.atMs ? b : a));
    const latest = readers.map((one) => one.#latest).reduce((a, b) => (b.atMs > a.atMs ? b : a));
    const outermost = at <= calls / 2 ? earliest : latest;
    if (spanMs > SPAN_MAX_MS) return { code: "span-too-long", ...outermost, silenceMs, spanMs, mostMs: SPAN_MAX_MS };
    const [back] = readers
      .flatMap((one) => (one.#clock.largest === null ? [] : [{ ...one.#clock.largest, path: one.path }]))
      .sort((a, b) => b.byMs - a.byMs);
    const formats = readers.flatMap((one) => one.#chosen?.format ?? []);
    const all = (of: (one: LogFormat) => string): string => [...new Set(formats.map(of))].join(", ");
    const [start, end, logged] = [sum((one) => one.#of.start), sum((one) => one.#of.end), sum((one) => one.#of.logged)];
    const ofEnd = readers.every((one) => one.#tookMs === null) ? "end" : "end minus duration";
    const facts: ReplayedLog = {
      ...{ format: all(({ name }) => name), field: all(({ field }) => field) },
      moment: end > start + logged ? ofEnd : start >= logged ? "start" : "as logged",
      zone: readers.every((one) => one.#isZoned) ? "stated" : "assumed UTC",
      ...{ calls, unreadable, no_calls: sum((one) => one.#noCalls) },
      ...{ span_s: seconds(spanMs), longest_silence_s: seconds(silenceMs) },
      ...(formats.some(({ general }) => general !== undefined) && { every_line_counts: true }),
      ...(readers.length > 1 && { files: readers.length }),
      ...(back && {
        clock_back: {
          ...(readers.length > 1 && { file: basename(back.path) }),
          ...{ line: back.line, by_s: seconds(back.byMs) },
          ...{ lines: back.lines, overlap_s: seconds(back.overlapMs) },
        },
      }),
    };
    return { atMs, facts, outermost };
  }

  /** Returns the starts of all calls, ascending. Ends and durations match by index, so both keep the lines' order. */
  #starts(): number[] {
    const [atMs, took] = [this.#atMs, this.#tookMs];
    if (took === null) atMs.sort((a, b) => a - b);
    // The majority decides: one in a thousand milliseconds is a whole second by chance, and a log may hold odd lines.
    if (2 * this.#wholeSeconds > atMs.length) spreadOverSeconds(atMs);
    return took === null ? atMs : atMs.map((ms, k) => ms - (took[k] as number)).sort((a, b) => a - b);
  }

  /** Chooses the first format that reads at least half of the lines in the sample, and reads them by it. */
  #recognise(): void {
    const sample = this.#sample ?? [];
    this.#sample = null;
    const isNamed = this.#options.format !== undefined || this.#options.timeField !== undefined;
    let most = 0;
    for (const candidate of candidatesOf(this.#options)) {
      const { format } = candidate;
      const own = sample.flatMap(({ line }) => lineOf(line, candidate) ?? []);
      const unread = own.filter((line) => format.read(line) === null);
      const reads = own.length - unread.length;
      const others = unread.filter((line) => tellsOfNoCall(format, line)).length;
      // If the user names the format, its candidate that reads the most lines is chosen, even if these are few.
      const fits = isNamed ? reads > most : reads > 0 && 2 * reads >= sample.length - others;
      if (!fits) continue;
      this.#chosen = candidate;
      most = reads;
      if (!isNamed) break;
    }
    const [first] = sample;
    if (first === undefined) return;
    if (this.#chosen !== null) for (const { line, number } of sample) this.#take(line, number);
    else this.refusal = { code: "format-unknown", line: first.number, text: first.line.text, lines: sample.length };
  }

  #take(line: LogLine, number: number): void {
    const chosen = this.#chosen as Candidate;
    const own = lineOf(line, chosen);
    const time = own && chosen.format.read(own);
    if (time === null) {
      if (own !== null && tellsOfNoCall(chosen.format, own)) this.#noCalls += 1;
      else {
        this.#unreadable += 1;
        if (this.#atMs.length === 0) this.#atStartup += 1;
        this.#isUnfinishedUnread ||= number === this.#unfinished;
        this.#firstUnreadable ??= { line: number, text: line.text };
      }
      return;
    }
    if (this.#atMs.length >= CALLS_MAX) {
      this.refusal = { code: "too-many-calls", most: CALLS_MAX };
      return;
    }
    const { at, of, tookMs = 0 } = time;
    if (of === "end" && time.tookMs !== undefined) this.#tookMs ??= this.#atMs.map(() => 0);
    this.#atMs.push(at.ms);
    this.#tookMs?.push(of === "end" ? tookMs : 0);
    this.#of[of] += 1;
    if (isWholeSecond(at.ms)) this.#wholeSeconds += 1;
    this.#isZoned &&= at.zoned;
    if (at.ms < this.#earliest.atMs) this.#earliest = { atMs: at.ms, line: number, path: this.path };
    if (at.ms > this.#latest.atMs) this.#latest = { atMs: at.ms, line: number, path: this.path };
    // Lines are written when calls end, so the ends are in order.
    this.#clock.see(of === "start" ? at.ms + tookMs : at.ms, number);
  }
}

const PIECE_BYTES = 256 * 1024;
/** Longer lines are cut: the time is near the beginning, and a JSON line of this length is not about a call. */
const LINE_MAX_CHARS = 1024 * 1024;
const HEAD_BYTES = 4096;
const PACKED = { BZh: "bzip2", "\xfd7zXZ": "xz", "PK\x03\x04": "zip" };
/** Unpackers by the first bytes of a file. Node unpacks zstd windows of up to 128 MiB, as the command `zstd` does by default. */
const UNPACK = {
  "\x1f\x8b": { name: "gzip", start: () => createGunzip({ chunkSize: PIECE_BYTES }) },
  "\x28\xb5\x2f\xfd": { name: "zstd", start: () => createZstdDecompress({ chunkSize: PIECE_BYTES }) },
};

/** Control characters that no line of a log needs: not tab, LF, CR, ESC. A server may log a few that a client sent. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is counted
const CONTROLS = /[\0-\x08\x0e-\x1a\x1c-\x1f]/g;
const CONTROLS_SHARE_MAX = 0.05;

/** Says why the beginning of a file is not text; `null` if it is. */
const noText = (head: string): string | null => {
  if (head.startsWith("\xff\xfe") || head.startsWith("\xfe\xff")) {
    return "is UTF-16; expected UTF-8. Convert it: iconv -f UTF-16 -t UTF-8";
  }
  const packed = Object.entries(PACKED).find(([magic]) => head.startsWith(magic));
  if (packed !== undefined) return `is compressed by ${packed[1]}; expected text, gzip or zstd. Unpack it first`;
  const text = head.replace(/^\0+/, "");
  const controls = text.match(CONTROLS)?.length ?? 0;
  return controls > CONTROLS_SHARE_MAX * text.length ? "is no text: its beginning is full of control characters" : null;
};

const failed = (error: NodeJS.ErrnoException, packer = ""): UserFileError => {
  if (error instanceof UserFileError) return error;
  const { code = error.message } = error;
  if (code === "Z_BUF_ERROR") return new UserFileError(`it is cut short: its ${packer} data end before their end`);
  const what = /^Z(?:STD)?_/.test(code) ? `it has ${packer} data that are damaged` : "it cannot be read";
  return new UserFileError(`${what} (${code})`);
};

/** Reads one file, plain or compressed, and keeps only its moments. Throws `UserFileError`. */
const readFile = async (path: string, reader: LogReader, mayBeEmpty: boolean): Promise<void> => {
  const see = (line: string): void => {
    if (reader.refusal === null) reader.see(line);
  };
  const { descriptor: fd } = openUserFile(path);
  const first = Buffer.alloc(4);
  readSync(fd, first, 0, first.length, 0);
  const [, unpack] = Object.entries(UNPACK).find(([magic]) => first.toString("latin1").startsWith(magic)) ?? [];
  const source = createReadStream(path, { fd, start: 0, highWaterMark: PIECE_BYTES });
  const text = unpack === undefined ? source : pipeline(source, unpack.start(), () => undefined);
  const lines = cutLines(see, LINE_MAX_CHARS);
  const records = new JsonRecords(see);
  const decoder = new StringDecoder("utf8");
  let kind: "lines" | "document" | null = null;
  try {
    for await (const piece of text as AsyncIterable<Buffer>) {
      if (kind === null) {
        const trouble = noText(piece.toString("latin1", 0, HEAD_BYTES));
        if (trouble !== null) {
          throw new UserFileError(`${unpack === undefined ? "" : "it holds, unpacked, no log: "}it ${trouble}`);
        }
        kind = isDocument(piece.toString()) ? "document" : "lines";
      }
      if (kind === "lines") lines.push(piece);
      else records.push(decoder.write(piece));
      if (reader.refusal !== null) break;
    }
  } catch (error) {
    throw failed(error as NodeJS.ErrnoException, unpack?.name);
  }
  if (kind === null && unpack === undefined && !mayBeEmpty) throw new UserFileError("it is empty");
  reader.endsWithinNext();
  lines.end();
  records.end();
  if (!records.isComplete && reader.refusal === null) {
    throw new UserFileError("it is cut short: a JSON document in it ends before its last bracket");
  }
};

/**
 * Reads a log, in one file or several (such as rotated ones, in any order), and keeps only its moments. `onTrouble` is
 * given the path of a file that cannot be read and makes the error to throw.
 */
export const readAccessLog = async (
  paths: readonly string[],
  options: LogOptions,
  onTrouble: (path: string, trouble: UserFileError) => Error,
): Promise<ReadLog | LogRefusal> => {
  const readers = paths.map((path) => new LogReader(options, path));
  for (const reader of readers) {
    await readFile(reader.path, reader, paths.length > 1).catch((error: Error) => {
      throw error instanceof UserFileError ? onTrouble(reader.path, error) : error;
    });
    if (reader.refusal !== null) break;
  }
  return LogReader.end(readers);
};
