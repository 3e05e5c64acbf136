/** Sends one request and times its answer. A network failure is an ending, not a throw. Redirects are not followed. */
import { createParser } from "eventsource-parser";
import type { Dispatcher } from "undici";
import { EVENT_NAMES_MOST, foreignName } from "../contract/foreign-text.ts";
import { codingOf } from "../contract/refusals.ts";
import * as streams from "../contract/streams.ts";
import type { RunClock } from "../supervision/waiting.ts";
import type { Timeouts } from "../workload/timeouts.ts";
import { codeOf, endOf, isFirstOnConnection, isOurs } from "./transport.ts";

export type SeenEvent = { name: string; data: string };

const nothingSeen = () => ({
  events: 0,
  late: 0,
  firstUs: null as number | null,
  terminal: null as { ended: "done" | "error_event"; atUs: number } | null,
  lastUs: null as number | null,
  /** The first `EVENT_NAMES_MOST` distinct names, made safe for display. */
  names: new Set<string>(),
  /** Microseconds between consecutive events; the first `GAPS_KEPT`. */
  gapsUs: [] as number[],
  kept: [] as SeenEvent[],
});

/** The same limit as in k6/x/sse; bounds the memory of an endless stream. */
const GAPS_KEPT = 10_000;
/** The same limit as in k6/x/sse. A larger event is the server's fault, not load. */
const EVENT_MAX_CHARS = 2 << 20;
const KEPT_MOST = 20_000;

/** Reads one event stream: number, names and times of events (specification section 6; items 166-177), not comments. */
export const createStreamReader = ({ name: done }: streams.LastEvent, keepEvents: boolean) => {
  const seen = nothingSeen();
  const decoder = new TextDecoder();
  let nowUs = 0;
  const parser = createParser({
    maxBufferSize: EVENT_MAX_CHARS,
    onEvent: ({ event, data }) => {
      const name = event ?? "message";
      seen.events += 1;
      if (!seen.names.has(name) && seen.names.size < EVENT_NAMES_MOST) seen.names.add(foreignName(name));
      if (seen.firstUs === null) seen.firstUs = nowUs;
      else if (seen.gapsUs.length < GAPS_KEPT) seen.gapsUs.push(nowUs - (seen.lastUs ?? nowUs));
      seen.lastUs = nowUs;
      if (keepEvents && seen.kept.length < KEPT_MOST) seen.kept.push({ name, data });
      if (seen.terminal !== null) seen.late += 1;
      else if (name === done) seen.terminal = { ended: "done", atUs: nowUs };
      else if (name === streams.ERROR_EVENT) seen.terminal = { ended: "error_event", atUs: nowUs };
    },
  });
  return {
    seen,
    /** `atUs`: when the chunk was read. */
    feed: (chunk: Uint8Array, atUs: number): void => {
      nowUs = atUs;
      parser.feed(decoder.decode(chunk, { stream: true }));
    },
  };
};

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
  stream?: streams.LastEvent;
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
  ended: "eof" as streams.StreamEnd,
  seen: null as ReturnType<typeof nothingSeen> | null,
  aborted: false,
});

export type Received = ReturnType<typeof nothingReceived> & { error?: string };

/**
 * Sends a request. `settled` is called inside the transport: it must not throw or send. Optimized for high rates: a call
 * has one handler, its answer and usually one timer, and no promise.
 */
export const startRequest = (
  dispatcher: Dispatcher,
  request: OutgoingRequest,
  clock: RunClock,
  timeouts: Timeouts,
  settled: (received: Received) => void,
): void => {
  const { stream, keepEvents = false, mostBytes, decoded, onPiece, abort, slowReadMs } = request;
  const begunUs = clock.nowUs();
  const received: Received = nothingReceived(begunUs);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  let headUs: number | null = null;
  let reader: ReturnType<typeof createStreamReader> | null = null;
  let controller: Dispatcher.DispatchController | null = null;
  let isSettled = false;
  /** When the call times out, the wait for a first answer or event, and the wait between reads. */
  const callDueUs = begunUs + timeouts.callMs * 1000;
  let patienceDueUs = begunUs + timeouts.firstEventMs * 1000;
  let idleDueUs = Number.POSITIVE_INFINITY;
  let watch: NodeJS.Timeout | undefined;
  let watchDueUs = Number.POSITIVE_INFINITY;
  /** Timers of rare cases: grace after a stream's end, leaving after a time, pauses between reads. */
  let timers: NodeJS.Timeout[] | null = null;

  const later = (ms: number, act: () => void): void => {
    timers ??= [];
    timers.push(setTimeout(act, ms));
  };

  const settle = (ended: streams.StreamEnd, error?: string): void => {
    if (isSettled) return;
    isSettled = true;
    clearTimeout(watch);
    for (const timer of timers ?? []) clearTimeout(timer);
    received.seen = reader?.seen ?? null;
    const terminal = received.seen?.terminal ?? null;
    received.doneUs = terminal?.atUs ?? clock.nowUs();
    if (reader === null) received.text = Buffer.concat(chunks).toString("utf8");
    received.ended = terminal?.ended ?? ended;
    if (error !== undefined) received.error = terminal === null ? error : `after the terminal event: ${error}`;
    settled(received);
  };

  const giveUp = (ended: streams.StreamEnd, error?: string): void => {
    if (isSettled) return;
    settle(ended, error);
    controller?.abort(new Error(error ?? ended));
  };

  const leave = (why?: string): void => {
    received.aborted = true;
    giveUp("closed_by_client", why);
  };

  const watchUntilDue = (nowUs: number): void => {
    clearTimeout(watch);
    watchDueUs = Math.min(callDueUs, patienceDueUs, idleDueUs);
    const restMs = Math.max(0, (watchDueUs - nowUs) / 1000);
    // Looks after one turn of the event loop, so that answers that came while this process stalled are read first.
    watch = setTimeout(() => setImmediate(look), restMs);
  };

  const look = (): void => {
    if (isSettled) return;
    const nowUs = clock.nowUs();
    if (nowUs >= callDueUs) giveUp("timeout", "call-timeout");
    else if (nowUs >= patienceDueUs) giveUp("timeout", "first-event-timeout");
    else if (nowUs >= idleDueUs) giveUp("timeout", "idle-timeout");
    else watchUntilDue(nowUs);
  };

  const read = (chunk: Uint8Array): void => {
    const nowUs = clock.nowUs();
    onPiece?.(chunk, nowUs);
    idleDueUs = nowUs + timeouts.idleMs * 1000;
    bytes += chunk.length;
    if (reader === null) {
      if (bytes > (mostBytes ?? BODY_MAX_BYTES)) giveUp("truncated", "body-too-large");
      else chunks.push(chunk);
      return;
    }
    const before = reader.seen.terminal;
    try {
      reader.feed(chunk, nowUs);
    } catch (error) {
      return void giveUp("truncated", codeOf(error as Error));
    }
    const { events, terminal } = reader.seen;
    if (bytes > (mostBytes ?? STREAM_MAX_BYTES)) return void leave(ANSWER_TOO_LARGE);
    if (events > 0) patienceDueUs = Number.POSITIVE_INFINITY;
    if (before === null && terminal !== null) later(GRACE_MS, () => setImmediate(() => giveUp("eof")));
    else if (terminal === null && abort !== undefined && "afterEvents" in abort && events >= abort.afterEvents) leave();
  };

  const handler = {
    onRequestStart: (started: Dispatcher.DispatchController): void => {
      controller = started;
      if (isSettled) return void started.abort(new Error("given up before it was sent"));
      // Taken before writing, because a local server may have the bytes before `write` returns.
      const nowUs = clock.nowUs();
      received.sentUs = nowUs;
      if (isFirstOnConnection()) received.connectUs = nowUs;
      received.sent = true;
      // The limit starts here, because waiting for one of our connections is not the target's delay.
      patienceDueUs = nowUs + timeouts.firstEventMs * 1000;
    },
    onResponseStarted: (): void => {
      headUs = clock.nowUs();
    },
    onResponseStart: (_: unknown, status: number, headers: Received["headers"]): void => {
      if (status < 200) return;
      // `onResponseStarted` took the time of the first byte in the same turn.
      const nowUs = headUs ?? clock.nowUs();
      Object.assign(received, { status, headers, firstUs: nowUs });
      const isStream = stream !== undefined && status === 200 && streams.isEventStream(headers["content-type"]);
      if (isStream && (decoded === true || codingOf(String(headers["content-encoding"] ?? "")) === null)) {
        reader = createStreamReader(stream, keepEvents);
      } else patienceDueUs = Number.POSITIVE_INFINITY;
      idleDueUs = nowUs + timeouts.idleMs * 1000;
      if (idleDueUs < watchDueUs) watchUntilDue(nowUs);
      if (abort !== undefined && "afterMs" in abort) later(abort.afterMs, leave);
    },
    onResponseData: (reading: Dispatcher.DispatchController, chunk: Uint8Array): void => {
      read(chunk);
      if (slowReadMs === undefined || isSettled) return;
      reading.pause();
      later(slowReadMs, () => reading.resume());
    },
    onResponseEnd: (): void => {
      if (stream === undefined) settle("eof");
      else if (reader === null) settle("refused");
      else {
        const ended = streams.endOfBody(reader.seen.events, stream);
        settle(ended, ended === "eof" || reader.seen.terminal !== null ? undefined : streams.NO_LAST_EVENT);
      }
    },
    onResponseError: (_: unknown, error: Error): void => {
      const code = codeOf(error);
      const isWhole = reader === null && Number(received.headers["content-length"]) === bytes;
      if (code === LENGTH_MISMATCH && isWhole) return void settle(stream === undefined ? "eof" : "refused");
      if (isOurs(code)) received.aborted = true;
      settle(received.aborted ? "closed_by_client" : endOf(code, received.status !== null), code);
    },
  };

  watchUntilDue(begunUs);
  dispatcher.dispatch(request, handler as Dispatcher.DispatchHandler);
};

export const sendRequest = (dispatcher: Dispatcher, request: OutgoingRequest, clock: RunClock, timeouts: Timeouts) =>
  new Promise<Received>((resolve) => startRequest(dispatcher, request, clock, timeouts, resolve));
