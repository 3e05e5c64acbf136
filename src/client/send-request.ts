/**
 * One request and its answer, timed: from the moment it is handed to the transport to the moment its answer has ended in
 * exactly one way. It never throws for what the network does; what happened is the result. Redirects are answers like others.
 */
import type { Dispatcher } from "undici";
import type { Stream } from "../contract/routes.ts";
import type { StreamEnd } from "../contract/streams.ts";
import type { Timeouts } from "../workload/timeouts.ts";
import type { RunClock } from "./clock.ts";
import { isFirstOnConnection } from "./fresh-connection.ts";
import { createStreamReader, type StreamReader, type StreamSeen } from "./stream-reader.ts";
import { codeOf, endOf, isOurs } from "./transport-errors.ts";

/** How long a stream is read on after its terminal event, to catch what should not come; k6 reads on for 250 ms. */
const GRACE_MS = 1_000;
const BODY_MAX_BYTES = 4 << 20;
/** undici says so as well where spaces follow the number, which RFC 9112 allows. */
const LENGTH_MISMATCH = "UND_ERR_RES_CONTENT_LENGTH_MISMATCH";

export type OutgoingRequest = {
  origin: string;
  path: string;
  method: "GET" | "POST" | "PATCH" | "DELETE" | "OPTIONS" | "PUT" | "HEAD";
  /** Name, value, name, value, … */
  headers: string[];
  body?: string | Uint8Array;
  /** Which vocabulary to read a stream with; absent for other routes. */
  stream?: Stream;
  keepEvents?: boolean;
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
  /** First byte of the head. */
  firstUs: number | null;
  doneUs: number;
  /** `null`: no head of an answer came. */
  status: number | null;
  headers: Record<string, string | string[] | undefined>;
  /** The body of an answer that is no event stream. */
  text: string;
  /** `eof` stands for a whole answer here; a stream's own end is in `seen` first (design.md, "k6 with SSE"). */
  ended: StreamEnd;
  seen: StreamSeen | null;
  /** In a word of the transport. */
  error?: string;
  aborted: boolean;
};

const isEventStream = (value: string | string[] | undefined): boolean =>
  typeof value === "string" && /^\s*text\/event-stream\s*(;|$)/i.test(value);

export const sendRequest = (
  dispatcher: Dispatcher,
  request: OutgoingRequest,
  clock: RunClock,
  timeouts: Timeouts,
): Promise<Received> =>
  new Promise((resolve) => {
    const startedUs = clock.nowUs();
    let sentUs = startedUs;
    let connectUs = 0;
    let sent = false;
    let headUs: number | null = null;
    let firstUs: number | null = null;
    let status: number | null = null;
    let headers: Received["headers"] = {};
    let reader: StreamReader | null = null;
    let controller: Dispatcher.DispatchController | null = null;
    let settled = false;
    let aborted = false;
    let bytes = 0;
    let heard = 0;
    const chunks: Uint8Array[] = [];
    const timers = new Set<NodeJS.Timeout>();

    const settle = (ended: StreamEnd, error?: string): void => {
      if (settled) return;
      settled = true;
      for (const timer of timers) clearTimeout(timer);
      const terminal = reader?.seen.terminal ?? null;
      resolve({
        sent,
        startedUs,
        connectUs,
        sentUs,
        firstUs,
        doneUs: terminal?.atUs ?? clock.nowUs(),
        status,
        headers,
        text: reader === null ? Buffer.concat(chunks).toString("utf8") : "",
        ended: terminal?.ended ?? ended,
        seen: reader?.seen ?? null,
        ...(error === undefined ? {} : { error: terminal === null ? error : `after the terminal event: ${error}` }),
        aborted,
      });
    };
    const giveUp = (ended: StreamEnd, error?: string): void => {
      settle(ended, error);
      controller?.abort(new Error(error ?? ended));
    };
    // An expired timer looks again after a turn of the loop: a process that stood still must not accuse its target.
    const after = (ms: number, isDue: () => boolean, expired: () => void): NodeJS.Timeout => {
      const timer = setTimeout(() => {
        const before = heard;
        setImmediate(() => {
          if (!settled && isDue() && (heard === before || timer !== idle)) expired();
        });
      }, ms);
      timers.add(timer);
      return timer;
    };
    const always = (): boolean => true;
    const nothingCame = (): boolean => (reader === null ? status === null : reader.seen.events === 0);

    after(timeouts.callMs, always, () => giveUp("timeout", "call-timeout"));
    const patience = after(timeouts.firstEventMs, nothingCame, () => giveUp("timeout", "first-event-timeout"));
    let idle: NodeJS.Timeout | null = null;
    const leave = (): void => {
      aborted = true;
      giveUp("closed_by_client");
    };
    const { abort } = request;
    const heardSomething = (): void => {
      heard += 1;
      idle?.refresh();
    };

    const onChunk = (chunk: Uint8Array): void => {
      heardSomething();
      if (reader === null) {
        bytes += chunk.length;
        if (bytes > BODY_MAX_BYTES) giveUp("truncated", "body-too-large");
        else chunks.push(chunk);
        return;
      }
      const before = reader.seen.terminal;
      try {
        reader.feed(chunk, clock.nowUs());
      } catch (error) {
        giveUp("truncated", codeOf(error as Error));
        return;
      }
      const { seen } = reader;
      if (seen.events > 0) clearTimeout(patience);
      if (before === null && seen.terminal !== null) after(GRACE_MS, always, () => giveUp("eof"));
      else if (
        seen.terminal === null &&
        abort !== undefined &&
        "afterEvents" in abort &&
        seen.events >= abort.afterEvents
      ) {
        leave();
      }
    };

    dispatcher.dispatch(
      {
        origin: request.origin,
        path: request.path,
        method: request.method,
        headers: request.headers,
        ...(request.body === undefined ? {} : { body: request.body }),
      },
      {
        onRequestStart: (started) => {
          controller = started;
          if (settled) {
            started.abort(new Error("given up before it was sent"));
            return;
          }
          // Before the first byte is written: a server on this host may have it before `write` has returned.
          sentUs = clock.nowUs();
          if (isFirstOnConnection()) connectUs = sentUs;
          sent = true;
          // The time that it waited for a connection of ours is not the target's.
          patience.refresh();
        },
        onResponseStarted: () => {
          headUs = clock.nowUs();
        },
        onResponseStart: (_controller, code, answered) => {
          if (code < 200) return;
          heardSomething();
          status = code;
          headers = answered as Received["headers"];
          firstUs = headUs ?? clock.nowUs();
          if (request.stream !== undefined && code === 200 && isEventStream(headers["content-type"])) {
            reader = createStreamReader(request.stream, request.keepEvents === true);
          } else {
            clearTimeout(patience);
          }
          idle = after(timeouts.idleMs, always, () => giveUp("timeout", "idle-timeout"));
          if (abort !== undefined && "afterMs" in abort) timers.add(setTimeout(leave, abort.afterMs));
        },
        onResponseData: (reading, chunk) => {
          onChunk(chunk);
          if (request.slowReadMs === undefined || settled) return;
          reading.pause();
          timers.add(setTimeout(() => reading.resume(), request.slowReadMs));
        },
        onResponseEnd: () => settle(request.stream !== undefined && reader === null ? "refused" : "eof"),
        onResponseError: (_controller, error) => {
          const code = codeOf(error);
          if (code === LENGTH_MISMATCH && reader === null && Number(headers["content-length"]) === bytes) {
            settle(request.stream === undefined ? "eof" : "refused");
            return;
          }
          if (isOurs(code)) aborted = true;
          settle(aborted ? "closed_by_client" : endOf(code, status !== null), code);
        },
      },
    );
  });
