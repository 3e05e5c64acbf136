/**
 * An access log, line by line, as the moments at which its calls came. Of a line nothing is kept but its moment: addresses,
 * users, paths and queries go nowhere, so that a log may be replayed that must not be shown.
 */
import type { ReplayedLog } from "../../history/run-document.ts";
import { LOG_FORMATS, type LogFormat, namedField } from "./log-formats.ts";
import { type Directives, directed, LogLine } from "./log-line.ts";

export type LogOptions = {
  /** A name of `LOG_FORMAT_NAMES`; found out where absent. */
  format?: string;
  timeField?: string;
  /** Lines that cannot be read are left out, however many there are. */
  skipUnreadable?: boolean;
};

/** Why a log is not replayed. `line`: its number, from 1; `text`: what stands there, as it is. */
export type LogRefusal =
  | { code: "format-unknown"; line: number; text: string; lines: number }
  | { code: "unreadable"; format: LogFormat; line: number; text: string; lines: number; unreadable: number }
  | { code: "too-few-calls"; calls: number; lines: number }
  | { code: "too-many-calls"; most: number }
  | { code: "span-too-long"; line: number; atMs: number; silenceMs: number; spanMs: number; mostMs: number };

/** `atMs`: when the calls came, milliseconds since 1970, ascending. */
export type ReadLog = {
  readonly atMs: readonly number[];
  readonly facts: ReplayedLog;
  /** The first or the last call: the one on that side of the longest silence on which there are fewer. */
  readonly outermost: OutermostLine;
};

type OutermostLine = { readonly line: number; readonly atMs: number };

/** By so many lines a format is recognised; each has to be read by it in at least half of them. */
const SAMPLE_LINES = 1000;
const SAMPLE_CHARS = 4 * 1024 * 1024;
/** More lines than this share that cannot be read: the log is another one than was thought. */
export const UNREADABLE_SHARE_MAX = 0.01;
/** 80 MB of moments. */
const CALLS_MAX = 10_000_000;
/** A log of more than a year has a line in it that is out of place. */
const SPAN_MAX_MS = 366 * 86_400_000;
/** Lines that are written at the end of a call, or by several workers, are out of order by so much without a word. */
const ORDER_SLACK_MS = 1000;
/** A line that is earlier by so much is said, and one of several in a row by less. */
const STEP_BACK_MS = 60_000;
const STEP_BACK_IN_A_ROW_MS = 5000;
const IN_A_ROW = 10;

type Candidate = { format: LogFormat; isInner: boolean };

const lineOf = (line: LogLine, { isInner }: Candidate): LogLine | null => (isInner ? line.inner : line);

/** Formats of one program before those of many, a line as it is before what stands inside of it. */
const candidatesOf = ({ format, timeField }: LogOptions): Candidate[] => {
  if (timeField !== undefined) return [false, true].map((isInner) => ({ format: namedField(timeField), isInner }));
  const formats = LOG_FORMATS.filter(({ name, byNameOnly }) =>
    format === undefined ? byNameOnly !== true : name === format,
  );
  const isJson = ({ name }: LogFormat): boolean => name === "json";
  const groups = [
    formats.filter(({ general }) => general !== true),
    formats.filter((one) => one.general === true && isJson(one)),
    formats.filter((one) => one.general === true && !isJson(one)),
  ];
  return groups.flatMap((group) =>
    [false, true].flatMap((isInner) => group.map((one): Candidate => ({ format: one, isInner }))),
  );
};

/** A list of numbers of which each takes eight bytes. */
class Numbers {
  #values = new Float64Array(1024);
  length = 0;

  push(value: number): void {
    if (this.length === this.#values.length) {
      const larger = new Float64Array(2 * this.length);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.length++] = value;
  }

  values(): Float64Array {
    return this.#values.subarray(0, this.length);
  }
}

/** A log of whole seconds: the calls of each are spread evenly over it, or all would come at once. Equal values stand together. */
const spreadOverSeconds = (atMs: Float64Array): void => {
  for (let from = 0; from < atMs.length; ) {
    let to = from + 1;
    while (to < atMs.length && atMs[to] === atMs[from]) to += 1;
    const second = atMs[from] as number;
    for (let k = from; k < to; k++) atMs[k] = second + ((k - from + 0.5) * 1000) / (to - from);
    from = to;
  }
};

/** Lines in a row that are earlier than one above them. */
type StepBack = { line: number; byMs: number; lines: number; overlapMs: number };

/** Watches the clock of the log in the order of its lines. */
class ClockWatch {
  #fromMs = Number.POSITIVE_INFINITY;
  #toMs = Number.NEGATIVE_INFINITY;
  #run: { line: number; byMs: number; lines: number; fromMs: number; toMs: number } | null = null;
  largest: StepBack | null = null;

  see(ms: number, line: number): void {
    if (ms < this.#toMs - ORDER_SLACK_MS) {
      this.#run ??= { line, byMs: this.#toMs - ms, lines: 0, fromMs: ms, toMs: ms };
      this.#run.lines += 1;
      this.#run.fromMs = Math.min(this.#run.fromMs, ms);
      this.#run.toMs = Math.max(this.#run.toMs, ms);
      return;
    }
    this.#endRun(false);
    this.#fromMs = Math.min(this.#fromMs, ms);
    this.#toMs = Math.max(this.#toMs, ms);
  }

  end(): void {
    this.#endRun(true);
  }

  #endRun(isLast: boolean): void {
    const run = this.#run;
    if (run === null) return;
    this.#run = null;
    const inARow = run.lines >= IN_A_ROW || (isLast && run.lines > 1);
    const isSaid = run.byMs > STEP_BACK_MS || (inARow && run.byMs > STEP_BACK_IN_A_ROW_MS);
    const overlapMs = Math.max(0, Math.min(this.#toMs, run.toMs) - Math.max(this.#fromMs, run.fromMs));
    this.#fromMs = Math.min(this.#fromMs, run.fromMs);
    if (isSaid && run.byMs > (this.largest?.byMs ?? 0)) {
      this.largest = { line: run.line, byMs: run.byMs, lines: run.lines, overlapMs };
    }
  }
}

const longestSilence = (atMs: Float64Array): { ms: number; at: number } => {
  let longest = { ms: 0, at: 0 };
  for (let k = 1; k < atMs.length; k++) {
    const ms = (atMs[k] as number) - (atMs[k - 1] as number);
    if (ms > longest.ms) longest = { ms, at: k };
  }
  return longest;
};

const seconds = (ms: number): number => Math.round(ms) / 1000;

export class LogReader {
  readonly #options: LogOptions;
  /** Lines that wait until the format is known. */
  #sample: { line: LogLine; number: number }[] | null = [];
  #sampleChars = 0;
  #chosen: Candidate | null = null;
  #directives: Directives | null = null;
  #number = 0;
  readonly #atMs = new Numbers();
  /** What each call took, where the line has its end and what it took. */
  #tookMs: Numbers | null = null;
  #isWhole = true;
  #isZoned = true;
  readonly #of = { start: 0, end: 0, logged: 0 };
  #unreadable = 0;
  #noCalls = 0;
  #firstUnreadable: { line: number; text: string } | null = null;
  #earliest: OutermostLine = { atMs: Number.POSITIVE_INFINITY, line: 0 };
  #latest: OutermostLine = { atMs: Number.NEGATIVE_INFINITY, line: 0 };
  readonly #clock = new ClockWatch();
  /** Why the rest of the log need not be read. */
  refusal: LogRefusal | null = null;

  constructor(options: LogOptions = {}) {
    this.#options = options;
  }

  /** Takes one line, without its end. */
  see(text: string): void {
    this.#number += 1;
    const trimmed = text.trim();
    if (trimmed === "") return;
    if (trimmed.startsWith("#")) {
      this.#directives = directed(this.#directives, trimmed);
      return;
    }
    const line = new LogLine(trimmed, this.#directives);
    if (this.#sample === null) {
      this.#take(line, this.#number);
      return;
    }
    this.#sample.push({ line, number: this.#number });
    this.#sampleChars += trimmed.length;
    if (this.#sample.length >= SAMPLE_LINES || this.#sampleChars >= SAMPLE_CHARS) this.#recognise();
  }

  end(): ReadLog | LogRefusal {
    if (this.#sample !== null) this.#recognise();
    if (this.refusal !== null) return this.refusal;
    this.#clock.end();
    const { format } = this.#chosen as Candidate;
    const calls = this.#atMs.length;
    const lines = calls + this.#unreadable;
    const first = this.#firstUnreadable;
    const isMuch = this.#unreadable > UNREADABLE_SHARE_MAX * lines;
    if (first !== null && isMuch && this.#options.skipUnreadable !== true) {
      return { code: "unreadable", format, ...first, lines, unreadable: this.#unreadable };
    }
    if (calls < 2) return { code: "too-few-calls", calls, lines };
    const atMs = this.#starts();
    const spanMs = (atMs[calls - 1] as number) - (atMs[0] as number);
    const silence = longestSilence(atMs);
    const outermost = silence.at <= calls / 2 ? this.#earliest : this.#latest;
    if (spanMs > SPAN_MAX_MS) {
      return { code: "span-too-long", ...outermost, silenceMs: silence.ms, spanMs, mostMs: SPAN_MAX_MS };
    }
    const back = this.#clock.largest;
    const facts: ReplayedLog = {
      format: format.name,
      field: format.field,
      moment: this.#momentOf(),
      zone: this.#isZoned ? "stated" : "assumed UTC",
      calls,
      unreadable: this.#unreadable,
      no_calls: this.#noCalls,
      span_s: seconds(spanMs),
      longest_silence_s: seconds(silence.ms),
      ...(back === null
        ? {}
        : {
            clock_back: {
              line: back.line,
              by_s: seconds(back.byMs),
              lines: back.lines,
              overlap_s: seconds(back.overlapMs),
            },
          }),
    };
    return { atMs: Array.from(atMs), facts, outermost };
  }

  #momentOf(): ReplayedLog["moment"] {
    const { start, end, logged } = this.#of;
    if (end > start + logged) return this.#tookMs === null ? "end" : "end minus duration";
    return start >= logged ? "start" : "as logged";
  }

  /** The starts of all calls, ascending. */
  #starts(): Float64Array {
    const atMs = this.#atMs.values();
    const took = this.#tookMs?.values();
    if (took === undefined) {
      atMs.sort();
      if (this.#isWhole) spreadOverSeconds(atMs);
      return atMs;
    }
    // In the order of the lines, because each moment belongs to what its call took.
    if (this.#isWhole) spreadOverSeconds(atMs);
    for (let k = 0; k < atMs.length; k++) atMs[k] = (atMs[k] as number) - (took[k] as number);
    return atMs.sort();
  }

  /** Chooses the first format that reads at least half of the lines in the sample, and reads them by it. */
  #recognise(): void {
    const sample = this.#sample ?? [];
    this.#sample = null;
    const first = sample[0];
    if (first === undefined) {
      this.refusal = { code: "too-few-calls", calls: 0, lines: 0 };
      return;
    }
    const isNamed = this.#options.format !== undefined || this.#options.timeField !== undefined;
    let most = 0;
    for (const candidate of candidatesOf(this.#options)) {
      let reads = 0;
      let others = 0;
      for (const { line } of sample) {
        const own = lineOf(line, candidate);
        if (own === null) continue;
        if (candidate.format.read(own) !== null) reads += 1;
        else if (candidate.format.isNoCall?.(own) === true) others += 1;
      }
      // A format that the user names is the one that reads most, be it a few lines.
      const fits = isNamed ? reads > most : reads > 0 && 2 * reads >= sample.length - others;
      if (!fits) continue;
      this.#chosen = candidate;
      most = reads;
      if (!isNamed) break;
    }
    if (this.#chosen === null) {
      this.refusal = { code: "format-unknown", line: first.number, text: first.line.text, lines: sample.length };
      return;
    }
    for (const { line, number } of sample) this.#take(line, number);
  }

  #take(line: LogLine, number: number): void {
    const chosen = this.#chosen as Candidate;
    const own = lineOf(line, chosen);
    const time = own === null ? null : chosen.format.read(own);
    if (time === null) {
      if (own !== null && chosen.format.isNoCall?.(own) === true) {
        this.#noCalls += 1;
        return;
      }
      this.#unreadable += 1;
      this.#firstUnreadable ??= { line: number, text: line.text };
      return;
    }
    if (this.#atMs.length >= CALLS_MAX) {
      this.refusal = { code: "too-many-calls", most: CALLS_MAX };
      return;
    }
    const { at, of, tookMs = 0 } = time;
    if (of === "end" && time.tookMs !== undefined && this.#tookMs === null) {
      this.#tookMs = new Numbers();
      for (let k = 0; k < this.#atMs.length; k++) this.#tookMs.push(0);
    }
    this.#atMs.push(at.ms);
    this.#tookMs?.push(of === "end" ? tookMs : 0);
    this.#of[of] += 1;
    this.#isWhole &&= at.ms % 1000 === 0;
    this.#isZoned &&= at.zoned;
    if (at.ms < this.#earliest.atMs) this.#earliest = { atMs: at.ms, line: number };
    if (at.ms > this.#latest.atMs) this.#latest = { atMs: at.ms, line: number };
    // A line is written when its call ends, so that those are the moments that are in order.
    this.#clock.see(of === "start" ? at.ms + tookMs : at.ms, number);
  }
}
