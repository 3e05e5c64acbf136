/**
 * One request and its answer, timed: from the moment it is handed to the transport to the moment its answer has ended in
 * exactly one way. It never throws for what the network does; what happened is the result. Redirects are answers like others.
 */
import type { Dispatcher } from "undici";
import { codingOf } from "../contract/envelopes.ts";
import { endOfBody, type LastEvent, NO_LAST_EVENT, type StreamEnd } from "../contract/streams.ts";
import type { Timeouts } from "../workload/timeouts.ts";
import type { RunClock } from "./clock.ts";
import { isFirstOnConnection } from "./fresh-connection.ts";
import { createStreamReader, type StreamReader, type StreamSeen } from "./stream-reader.ts";
import { codeOf, endOf, isOurs } from "./transport.ts";

/** How long a stream is read on after its terminal event, to catch what should not come; k6 reads on for 250 ms. */
const GRACE_MS = 1_000;
const BODY_MAX_BYTES = 4 << 20;
/** Of a whole stream; as in k6/x/sse. */
const STREAM_MAX_BYTES = 64 << 20;
/** The error of a stream that we left because it was too long; the target did not end it. */
export const ANSWER_TOO_LARGE = "answer-too-large";
/** undici says so as well where spaces follow the number, which RFC 9112 allows. */
const LENGTH_MISMATCH = "UND_ERR_RES_CONTENT_LENGTH_MISMATCH";

export type OutgoingRequest = {
  origin: string;
  path: string;
  method: "GET" | "POST" | "PATCH" | "DELETE" | "OPTIONS" | "PUT" | "HEAD";
  /** Name, value, name, value, … */
  headers: string[];
  body?: string | Uint8Array;
  /** The event that ends the stream; absent for routes that answer without one. */
  stream?: LastEvent;
  keepEvents?: boolean;
  /** At most so much of the answer is read, a stream's events together; without it 4 MiB, and of a stream 64. */
  mostBytes?: number;
  /** The dispatcher decodes bodies; what is coded is no stream that can be read otherwise. */
  decoded?: true;
  abort?: { readonly afterEvents: number } | { readonly afterMs: number };
  /** Rest for so long after each read, as a slow reader does. */
  slowReadMs?: number;
};

export type Received = {
  /** Whether a connection was there and the request went out on it: if not, the target cannot have seen it. */
  sent: boolean;
  /** When it was handed to the transport. */
  startedUs: number;
  /** When the connection was made for it; 0 when one was reused. */
  connectUs: number;
  /** Just before it was written; `startedUs` when it never was. */
  sentUs: number;
  firstUs: number | null;
  doneUs: number;
  /** `null`: no head of an answer came. */
  status: number | null;
  headers: Record<string, string | string[] | undefined>;
  /** The body of an answer that is no event stream. */
  text: string;
  /** `eof` stands for a whole answer here; a stream's own end is in `seen` first. */
  ended: StreamEnd;
  seen: StreamSeen | null;
  error?: string;
  aborted: boolean;
};

const isEventStream = (value: string | string[] | undefined): boolean =>
  typeof value === "string" && /^\s*text\/event-stream\s*(;|$)/i.test(value);

/** At high rates most of what a call costs is what is made for it: one object and, until it waits long, one timer. */
class Exchange {
  readonly #request: OutgoingRequest;
  readonly #clock: RunClock;
  readonly #timeouts: Timeouts;
  readonly #settled: (received: Received) => void;
  readonly #startedUs: number;
  #sentUs: number;
  #connectUs = 0;
  #sent = false;
  #headUs: number | null = null;
  #firstUs: number | null = null;
  #status: number | null = null;
  #headers: Received["headers"] = {};
  #reader: StreamReader | null = null;
  #controller: Dispatcher.DispatchController | null = null;
  #isSettled = false;
  #aborted = false;
  #bytes = 0;
  readonly #chunks: Uint8Array[] = [];
  /** When the call, what is waited for first, and a silence have lasted too long, in microseconds of the run. */
  readonly #callDueUs: number;
  #patienceDueUs: number;
  #idleDueUs = Number.POSITIVE_INFINITY;
  #watch: NodeJS.Timeout | undefined;
  #watchDueUs = Number.POSITIVE_INFINITY;
  /** Of what few calls have: a stream's grace, leaving after a time, resting between reads. */
  #timers: NodeJS.Timeout[] | null = null;

  constructor(request: OutgoingRequest, clock: RunClock, timeouts: Timeouts, settled: (received: Received) => void) {
    this.#request = request;
    this.#clock = clock;
    this.#timeouts = timeouts;
    this.#settled = settled;
    const nowUs = clock.nowUs();
    this.#startedUs = nowUs;
    this.#sentUs = nowUs;
    this.#callDueUs = nowUs + timeouts.callMs * 1000;
    this.#patienceDueUs = nowUs + timeouts.firstEventMs * 1000;
    this.#watchUntilDue(nowUs);
  }

  onRequestStart(started: Dispatcher.DispatchController): void {
    this.#controller = started;
    if (this.#isSettled) {
      started.abort(new Error("given up before it was sent"));
      return;
    }
    // Before the first byte is written: a server on this host may have it before `write` has returned.
    const nowUs = this.#clock.nowUs();
    this.#sentUs = nowUs;
    if (isFirstOnConnection()) this.#connectUs = nowUs;
    this.#sent = true;
    // The time that it waited for a connection of ours is not the target's.
    this.#patienceDueUs = nowUs + this.#timeouts.firstEventMs * 1000;
  }

  onResponseStarted(): void {
    this.#headUs = this.#clock.nowUs();
  }

  onResponseStart(_controller: Dispatcher.DispatchController, code: number, answered: Received["headers"]): void {
    if (code < 200) return;
    const { stream, abort, decoded } = this.#request;
    // The same turn read the first byte.
    const nowUs = this.#headUs ?? this.#clock.nowUs();
    this.#status = code;
    this.#headers = answered;
    this.#firstUs = nowUs;
    const isStream = stream !== undefined && code === 200 && isEventStream(answered["content-type"]);
    if (isStream && (decoded === true || codingOf(String(answered["content-encoding"] ?? "")) === null)) {
      this.#reader = createStreamReader(stream, this.#request.keepEvents === true);
    } else {
      this.#patienceDueUs = Number.POSITIVE_INFINITY;
    }
    this.#idleDueUs = nowUs + this.#timeouts.idleMs * 1000;
    if (this.#idleDueUs < this.#watchDueUs) this.#watchUntilDue(nowUs);
    if (abort !== undefined && "afterMs" in abort) this.#later(abort.afterMs, () => this.#leave());
  }

  onResponseData(reading: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#read(chunk);
    const { slowReadMs } = this.#request;
    if (slowReadMs === undefined || this.#isSettled) return;
    reading.pause();
    this.#later(slowReadMs, () => reading.resume());
  }

  onResponseEnd(): void {
    const { stream } = this.#request;
    if (stream === undefined) this.#settle("eof");
    else if (this.#reader === null) this.#settle("refused");
    else {
      const ended = endOfBody(this.#reader.seen.events, stream);
      this.#settle(ended, ended === "eof" || this.#reader.seen.terminal !== null ? undefined : NO_LAST_EVENT);
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const code = codeOf(error);
    const isWhole = this.#reader === null && Number(this.#headers["content-length"]) === this.#bytes;
    if (code === LENGTH_MISMATCH && isWhole) {
      this.#settle(this.#request.stream === undefined ? "eof" : "refused");
      return;
    }
    if (isOurs(code)) this.#aborted = true;
    this.#settle(this.#aborted ? "closed_by_client" : endOf(code, this.#status !== null), code);
  }

  #read(chunk: Uint8Array): void {
    const nowUs = this.#clock.nowUs();
    this.#idleDueUs = nowUs + this.#timeouts.idleMs * 1000;
    const reader = this.#reader;
    this.#bytes += chunk.length;
    if (reader === null) {
      if (this.#bytes > (this.#request.mostBytes ?? BODY_MAX_BYTES)) this.#giveUp("truncated", "body-too-large");
      else this.#chunks.push(chunk);
      return;
    }
    const before = reader.seen.terminal;
    try {
      reader.feed(chunk, nowUs);
    } catch (error) {
      this.#giveUp("truncated", codeOf(error as Error));
      return;
    }
    const { events, terminal } = reader.seen;
    const { abort, mostBytes = STREAM_MAX_BYTES } = this.#request;
    if (this.#bytes > mostBytes) {
      this.#leave(ANSWER_TOO_LARGE);
      return;
    }
    if (events > 0) this.#patienceDueUs = Number.POSITIVE_INFINITY;
    if (before === null && terminal !== null) {
      this.#later(GRACE_MS, () => setImmediate(() => this.#giveUp("eof")));
    } else if (terminal === null && abort !== undefined && "afterEvents" in abort && events >= abort.afterEvents) {
      this.#leave();
    }
  }

  #later(ms: number, act: () => void): void {
    this.#timers ??= [];
    this.#timers.push(setTimeout(act, ms));
  }

  #leave(why?: string): void {
    this.#aborted = true;
    this.#giveUp("closed_by_client", why);
  }

  #giveUp(ended: StreamEnd, error?: string): void {
    if (this.#isSettled) return;
    this.#settle(ended, error);
    this.#controller?.abort(new Error(error ?? ended));
  }

  #watchUntilDue(nowUs: number): void {
    clearTimeout(this.#watch);
    this.#watchDueUs = Math.min(this.#callDueUs, this.#patienceDueUs, this.#idleDueUs);
    const restMs = Math.max(0, (this.#watchDueUs - nowUs) / 1000);
    // An expired timer looks again after a turn of the loop: a process that stood still must not accuse its target.
    this.#watch = setTimeout(() => setImmediate(() => this.#look()), restMs);
  }

  /** What became due is given up; what was heard meanwhile has moved what is due. */
  #look(): void {
    if (this.#isSettled) return;
    const nowUs = this.#clock.nowUs();
    if (nowUs >= this.#callDueUs) this.#giveUp("timeout", "call-timeout");
    else if (nowUs >= this.#patienceDueUs) this.#giveUp("timeout", "first-event-timeout");
    else if (nowUs >= this.#idleDueUs) this.#giveUp("timeout", "idle-timeout");
    else this.#watchUntilDue(nowUs);
  }

  #text(): string {
    const [only] = this.#chunks;
    if (this.#reader !== null || only === undefined) return "";
    if (this.#chunks.length > 1) return Buffer.concat(this.#chunks).toString("utf8");
    return Buffer.from(only.buffer, only.byteOffset, only.byteLength).toString("utf8");
  }

  #settle(ended: StreamEnd, error?: string): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    clearTimeout(this.#watch);
    for (const timer of this.#timers ?? []) clearTimeout(timer);
    const seen = this.#reader?.seen ?? null;
    const terminal = seen?.terminal ?? null;
    const received: Received = {
      sent: this.#sent,
      startedUs: this.#startedUs,
      connectUs: this.#connectUs,
      sentUs: this.#sentUs,
      firstUs: this.#firstUs,
      doneUs: terminal?.atUs ?? this.#clock.nowUs(),
      status: this.#status,
      headers: this.#headers,
      text: this.#text(),
      ended: terminal?.ended ?? ended,
      seen,
      aborted: this.#aborted,
    };
    if (error !== undefined) received.error = terminal === null ? error : `after the terminal event: ${error}`;
    this.#settled(received);
  }
}

/** `settled` is called in the middle of what the transport does: it must not throw, and not send. */
export const startRequest = (
  dispatcher: Dispatcher,
  request: OutgoingRequest,
  clock: RunClock,
  timeouts: Timeouts,
  settled: (received: Received) => void,
): void => {
  const { origin, path, method, headers, body } = request;
  const exchange = new Exchange(request, clock, timeouts, settled);
  dispatcher.dispatch({ origin, path, method, headers, body }, exchange as Dispatcher.DispatchHandler);
};

export const sendRequest = (
  dispatcher: Dispatcher,
  request: OutgoingRequest,
  clock: RunClock,
  timeouts: Timeouts,
): Promise<Received> => new Promise((resolve) => startRequest(dispatcher, request, clock, timeouts, resolve));
