/** Sends one request and times its answer. A network failure is an ending, not a throw. Redirects are not followed. */
import type { Dispatcher } from "undici";
import { codingOf } from "../contract/envelopes.ts";
import { endOfBody, type LastEvent, NO_LAST_EVENT, type StreamEnd } from "../contract/streams.ts";
import type { Timeouts } from "../workload/timeouts.ts";
import type { RunClock } from "./clock.ts";
import { createStreamReader, type StreamReader, type StreamSeen } from "./stream-reader.ts";
import { codeOf, endOf, isFirstOnConnection, isOurs } from "./transport.ts";

/** How long a stream is read after its terminal event, to catch late events; k6 reads for 250 ms. */
const GRACE_MS = 1_000;
const BODY_MAX_BYTES = 4 << 20;
/** The same limit as in k6/x/sse. */
const STREAM_MAX_BYTES = 64 << 20;
/** The error of a stream that this client left because it was too long. */
export const ANSWER_TOO_LARGE = "answer-too-large";
/** undici also reports this for spaces after the number, which RFC 9112 allows. */
const LENGTH_MISMATCH = "UND_ERR_RES_CONTENT_LENGTH_MISMATCH";

export type OutgoingRequest = {
  origin: string;
  path: string;
  method: "GET" | "POST" | "PATCH" | "DELETE" | "OPTIONS" | "PUT" | "HEAD";
  headers: string[];
  body?: string | Uint8Array;
  /** The event that ends the stream; absent for routes without streams. */
  stream?: LastEvent;
  keepEvents?: boolean;
  /** Limit on the answer's bytes. Default: 4 MiB, 64 MiB for a stream. */
  mostBytes?: number;
  /** The dispatcher decodes bodies. Otherwise a coded body is not read as a stream. */
  decoded?: true;
  /** Gets every piece of the answer's body, and when it arrived. */
  onPiece?(piece: Uint8Array, atUs: number): void;
  abort?: { readonly afterEvents: number } | { readonly afterMs: number };
  /** Pause after each read, as a slow reader makes. */
  slowReadMs?: number;
};

const nothingReceived = (nowUs: number) => ({
  /** Whether the request was written to a connection; if not, the target cannot have seen it. */
  sent: false,
  /** When the request was given to the transport. */
  startedUs: nowUs,
  /** When the request's connection was made; 0 if a connection was reused. */
  connectUs: 0,
  /** When the request was about to be written; `startedUs` if it never was. */
  sentUs: nowUs,
  firstUs: null as number | null,
  doneUs: nowUs,
  /** `null`: no head came. */
  status: null as number | null,
  headers: {} as Record<string, string | string[] | undefined>,
  /** The body of an answer that is not a stream. */
  text: "",
  /** `eof` for a whole answer. */
  ended: "eof" as StreamEnd,
  seen: null as StreamSeen | null,
  aborted: false,
});

export type Received = ReturnType<typeof nothingReceived> & { error?: string };

const isEventStream = (value: string | string[] | undefined): boolean =>
  typeof value === "string" && /^\s*text\/event-stream\s*(;|$)/i.test(value);

/** Optimized for high rates: one object, its answer, and usually one timer for each call. */
class Exchange {
  readonly #request: OutgoingRequest;
  readonly #clock: RunClock;
  readonly #timeouts: Timeouts;
  readonly #settled: (received: Received) => void;
  readonly #received: Received;
  #headUs: number | null = null;
  #reader: StreamReader | null = null;
  #controller: Dispatcher.DispatchController | null = null;
  #isSettled = false;
  #bytes = 0;
  readonly #chunks: Uint8Array[] = [];
  /** When the call times out, the wait for a first answer or event, and the wait between reads. */
  readonly #callDueUs: number;
  #patienceDueUs: number;
  #idleDueUs = Number.POSITIVE_INFINITY;
  #watch: NodeJS.Timeout | undefined;
  #watchDueUs = Number.POSITIVE_INFINITY;
  /** Timers of rare cases: grace after a stream's end, leaving after a time, pauses between reads. */
  #timers: NodeJS.Timeout[] | null = null;

  constructor(request: OutgoingRequest, clock: RunClock, timeouts: Timeouts, settled: (received: Received) => void) {
    this.#request = request;
    this.#clock = clock;
    this.#timeouts = timeouts;
    this.#settled = settled;
    const nowUs = clock.nowUs();
    this.#received = nothingReceived(nowUs);
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
    // Taken before writing, because a local server may have the bytes before `write` returns.
    const nowUs = this.#clock.nowUs();
    this.#received.sentUs = nowUs;
    if (isFirstOnConnection()) this.#received.connectUs = nowUs;
    this.#received.sent = true;
    // The limit starts here, because waiting for one of our connections is not the target's delay.
    this.#patienceDueUs = nowUs + this.#timeouts.firstEventMs * 1000;
  }

  onResponseStarted(): void {
    this.#headUs = this.#clock.nowUs();
  }

  onResponseStart(_controller: Dispatcher.DispatchController, code: number, answered: Received["headers"]): void {
    if (code < 200) return;
    const { stream, abort, decoded } = this.#request;
    // `onResponseStarted` took the time of the first byte in the same turn.
    const nowUs = this.#headUs ?? this.#clock.nowUs();
    Object.assign(this.#received, { status: code, headers: answered, firstUs: nowUs });
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
    const { status, headers } = this.#received;
    const isWhole = this.#reader === null && Number(headers["content-length"]) === this.#bytes;
    if (code === LENGTH_MISMATCH && isWhole) {
      this.#settle(this.#request.stream === undefined ? "eof" : "refused");
      return;
    }
    if (isOurs(code)) this.#received.aborted = true;
    this.#settle(this.#received.aborted ? "closed_by_client" : endOf(code, status !== null), code);
  }

  #read(chunk: Uint8Array): void {
    const nowUs = this.#clock.nowUs();
    this.#request.onPiece?.(chunk, nowUs);
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
    this.#received.aborted = true;
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
    // Checks after one turn of the event loop, so that answers that came while this process stalled are read first.
    this.#watch = setTimeout(() => setImmediate(() => this.#look()), restMs);
  }

  /** Ends the call if a time limit has passed, else sets the timer again. */
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
    const received = this.#received;
    received.seen = this.#reader?.seen ?? null;
    const terminal = received.seen?.terminal ?? null;
    received.doneUs = terminal?.atUs ?? this.#clock.nowUs();
    received.text = this.#text();
    received.ended = terminal?.ended ?? ended;
    if (error !== undefined) received.error = terminal === null ? error : `after the terminal event: ${error}`;
    this.#settled(received);
  }
}

/** `settled` is called inside the transport: it must not throw or send. */
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
