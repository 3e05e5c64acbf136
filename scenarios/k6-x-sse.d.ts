// Types of our k6 extension (src/native/sse), written by hand. `k6/x/floodgate` is for our scenarios, `k6/x/sse` for all: a
// script with only open, on, close, url, status, headers and error also runs on the community's extension of that name.

declare module "k6/x/sse" {
  import type { CookieJar, url as httpUrl } from "k6/http";

  /** An absolute http(s) URL, or the result of http.url`…`, whose template becomes the `name` tag. */
  export type SseUrl = string | ReturnType<typeof httpUrl>;

  /** Milliseconds, or a Go duration such as "1.5s" or "2m". 0 is no limit. */
  export type Duration = number | string;

  export interface SseParams {
    /** Default GET. */
    method?: string;
    /** A header whose value is undefined or null is not sent. `Accept` is text/event-stream unless given. */
    headers?: Record<string, string | undefined | null>;
    body?: string | ArrayBuffer;
    /** Default: the VU's own jar, as in k6/http. */
    jar?: CookieJar;
    /** Tags of every sample of this stream; `name` replaces the path of the URL. */
    tags?: Record<string, string | number | boolean>;
    /** Limits the whole call, from sending to the end. Default 60 s. */
    timeout?: Duration;
    /** Limits the time from sending to the first event; a comment is not an event. Default: no limit. */
    firstEventTimeout?: Duration;
    /** Limits the time between two reads after the head; comments count, time in handlers does not. Default: no limit. */
    idleTimeout?: Duration;
    /** Names of the events that end a stream. An event without a name is called "message" here. */
    terminal?: {
      done?: string | string[];
      error?: string | string[];
      /** True: a stream that had events and ends cleanly without a terminal event is `truncated`, not `eof`. */
      required?: boolean;
    };
    /** Closes the stream after this many events. */
    closeAfterEvents?: number;
    /** The unit of the budget that an admitted call uses, reserved before the call and given back on a refusal. */
    charges?: "map_loads" | "analyses";
    /** False: no `sse_event_gap` samples, which k6 keeps until it ends; `gaps` of the response has them. Default true. */
    gapSamples?: boolean;
  }

  /**
   * How a call ended; every call has exactly one end.
   * - `done`, `error_event`: an event of `terminal.done`, `terminal.error` came; the first terminal event decides
   * - `eof`: the body ended as its framing says, without a terminal event
   * - `truncated`: the body stopped before the end of its framing, or lacks a `required` terminal event
   * - `reset`: no connection was made, or it broke; `status` is 0 if it broke before the head of the answer
   * - `timeout`: one of the three time-outs, or connecting took too long
   * - `refused`: a complete answer that is not an event stream (not 200, or another content type); see `body`
   * - `closed_by_client`: `client.close()`, an interrupted iteration, an event over 2 MiB or a stream over 64 MiB (see `error`)
   * - `not_sent`: the budget forbade the call (`error` says why)
   */
  export type SseEnd =
    | "done"
    | "error_event"
    | "eof"
    | "truncated"
    | "reset"
    | "timeout"
    | "refused"
    | "closed_by_client"
    | "not_sent";

  export interface SseEvent {
    /** The stream's last event id, which stays until an event changes it. */
    id: string;
    /** "" when the event has no name. */
    name: string;
    data: string;
    /** The last comment between the previous event and this one. */
    comment: string;
  }

  export interface SseClient {
    /** Called once when a stream begins; not for a refusal. */
    on(event: "open", handler: () => void): void;
    /** Called for each event, late ones included. Reading waits for the handler; without one, events cost nothing. */
    on(event: "event", handler: (event: SseEvent) => void): void;
    /** Called once, at the end, when `error` of the response is not empty. */
    on(event: "error", handler: (error: { error(): string }) => void): void;
    /** Ends the stream. May be called at any time. */
    close(): void;
  }

  export interface SseResponse {
    url: string;
    /** 0 if no answer came. */
    status: number;
    /** Names in Go's canonical form, such as `Retry-After`; several values are joined by ", ". */
    headers: Record<string, string>;
    /** "" if nothing broke. With `done`, the connection broke after the terminal event. */
    error: string;
    /** The body of an answer that is not an event stream, up to 1 MiB; otherwise "". Complete only if `refused`. */
    body: string;
    ended: SseEnd;
    /** Events that came, late ones included. */
    events: number;
    /** Events after the terminal one, within 250 ms or until the end of the body. */
    late: number;
    /** Whether a stream began. */
    opened: boolean;
    /** The distinct names of the events, in order of first appearance. */
    names: readonly string[];
    /** Microseconds between consecutive events; the first 10,000 gaps. */
    gaps: readonly number[];
    /** The stream was closed by `closeAfterEvents`. */
    aborted: boolean;
    /** Microseconds that the budget held the call back. */
    held_us: number;
    /** When the transport got the call; null if not sent. This and all below: microseconds since 1970. */
    started_us: number | null;
    /** When a connection was made for the call; 0 if one was reused or none was made. */
    connect_us: number;
    /** When the request was written; null when it never was. A request is never sent twice. */
    sent_us: number | null;
    /** The first byte of the head of the answer; null when none came. */
    first_us: number | null;
    /** When the first event was read, and when the last one was; null when none came. */
    first_event_us: number | null;
    last_event_us: number | null;
    /** When the terminal event was read, else when the call ended; null if the call never started. */
    done_us: number | null;
  }

  /**
   * Makes one call and blocks the VU until it ends. The response tells what server and network did. Throws for mistakes of
   * the script: a wrong URL or parameter, a call in the init context, or an exception of a handler, which also closes the
   * stream. Redirects are not followed.
   *
   * Metrics, with the tags `name`, `method`, `status`, `ended` and those of `params.tags`: `sse_time_to_first_event`, `sse_event_gap`,
   * `sse_stream_duration` (trends), `sse_streams`, `sse_event` (counters).
   */
  export function open(url: SseUrl, setup?: (client: SseClient) => void): SseResponse;
  export function open(
    url: SseUrl,
    params: SseParams | null | undefined,
    setup?: (client: SseClient) => void,
  ): SseResponse;

  const sse: { open: typeof open };
  export default sse;
}

/** Adds to `open` the state that all VUs of the process share, and lines that are printed for the runner. */
declare module "k6/x/floodgate" {
  import type { open as openStream, SseParams, SseUrl } from "k6/x/sse";

  export const open: typeof openStream;

  type Budget = import("../src/workload/budget.ts").Budget;
  type Spent = Omit<import("../src/workload/handover.ts").PrintedSpent, "type">;

  /**
   * Sets the budget that all VUs of the process share. Each VU may call this in the init context with the same budget; a
   * different budget throws. SIGUSR1 ends the sending as a spent budget does.
   */
  export function budget(terms: Budget & { stated?: Budget }): void;

  /** Returns what was spent so far. Works without a budget, and in handleSummary. */
  export function spent(): Spent;

  /** Declares the VU's last call recorded. The next `open`, `begin`, `turn` or `waitUntil` does the same. */
  export function settled(): void;

  /**
   * Waits until a time, in microseconds since 1970, and returns true; at once for a past time. Returns false if the
   * iteration or all sending ended first.
   */
  export function waitUntil(us: number): boolean;

  /**
   * Sets the schedule that all VUs share: microseconds from its zero, ascending. Every VU calls this in the init context;
   * only the first VU's function is called.
   */
  export function arrivals(momentsUs: () => readonly number[]): void;

  /**
   * Waits until shortly before an arrival is due and returns its number, or -1 if the iteration or all sending ended first.
   * The VU adds arrival `n` to those waiting; `zeroUs` is the zero of the schedule (microseconds since 1970). The VU that
   * began to wait last gets the next arrival, so that no more VUs are used than calls are in flight. A VU whose last call was
   * made by `begin` takes arrivals earlier, one right after the other.
   */
  export function turn(n: number, zeroUs: number): number;

  /** When the last arrival that `turn` gave the VU is due. */
  export function turnUs(): number;

  /** Sets the file that lines of the process go to. Every VU calls this in the init context with the same path. */
  export function printTo(path: string): void;

  /** Prints a line, which reaches the file within 20 ms. */
  export function print(line: string): void;

  /**
   * Prints the VU's last `open` as a `Printed` or `PrintedMint` of src/workload/handover.ts, with credentials masked. `place`
   * is a JSON object with the members that say which call it is; `intendedUs`: when it was due, 0 if it had no schedule;
   * `isSession`: a success has a token, so only what a judge reads of its body is printed. A call that was not sent prints
   * nothing.
   */
  export function printCall(place: string, intendedUs: number, isSession: boolean): void;

  /** Sets how many calls of `begin` may be in flight in the process; every VU sets the same number. */
  export function callsAtOnce(most: number): void;

  const checked: unique symbol;
  /** Checked parameters. */
  export type SseKind = { readonly [checked]: true };

  /** Checks parameters once for all calls of `begin` that use them. */
  export function kind(params: SseParams): SseKind;

  /**
   * Makes one call async, without handlers, and prints its result as `printCall` does, with credentials in body and error
   * masked. `headers` adds to those of `kind`. The call leaves at `intendedUs` (microseconds since 1970), or at once if that
   * is past, and the VU does not wait. At the limit of `callsAtOnce` the VU waits until one call has ended. Returns false if
   * the iteration or all sending ended first.
   */
  export function begin(
    url: SseUrl,
    kind: SseKind,
    headers: SseParams["headers"],
    body: SseParams["body"],
    place: string,
    intendedUs: number,
  ): boolean;

  /**
   * Waits for all calls of `begin`, at most `limitMs`, and `drainMs` once all sending has ended. Aborts the rest, which have
   * no line and are counted as `cut`. Call this in teardown, because k6 ends when its VUs have nothing more to do.
   */
  export function finish(limitMs: number, drainMs: number): void;

  /** Flushes the printed lines. Call this after the last line. */
  export function printed(): void;

  /**
   * Waits until every sent call is settled, at most `limitMs`, and returns true to the first VU that calls this; returns false
   * at once to all others. Call exec.test.abort afterwards: alone it would cut off calls whose result is not recorded.
   */
  export function drain(limitMs: number): boolean;

  /** Returns the text that a VU of the process last stored under this name, or null. */
  export function recall(name: string): string | null;

  /** Stores a text for all VUs of the process and ends the claim on its name. */
  export function remember(name: string, text: string): void;

  /** Returns true to the first VU that claims a name, and false to others for `limitMs` or until `remember`. */
  export function claim(name: string, limitMs: number): boolean;
}
