// Typings of our own k6 extension (src/native/sse), written by hand: Go has no typings to give. `k6/x/sse` is for any script: one that keeps to
// open, on, close, url, status, headers and error also runs on a k6 with the community's extension of that name; everything else here is ours.
// `k6/x/floodgate` is for our own scenarios.

declare module "k6/x/sse" {
  import type { CookieJar, url as httpUrl } from "k6/http";

  /** A string, or what http.url`…` gives: then the template is the `name` tag. It must be an absolute http or https address. */
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
    /** The whole exchange, from sending to the end. Default 60 s. */
    timeout?: Duration;
    /** From sending to the first event. Comments are no events. Default: no limit. */
    firstEventTimeout?: Duration;
    /** Between two arrivals of bytes after the head of the answer; comments count, time in handlers does not. Default: no limit. */
    idleTimeout?: Duration;
    /** Names of the events that end a stream. An event without a name is called "message" here. */
    terminal?: {
      done?: string | string[];
      error?: string | string[];
      /** True: a stream that had events and ends in order without one of these is `truncated`, and no `eof`. */
      required?: boolean;
    };
    /** Leave the stream on purpose after so many events. */
    closeAfterEvents?: number;
    /** What an admitted call is charged to, for the budget. It is taken before the call leaves and given back when it is refused. */
    charges?: "map_loads" | "analyses";
    /** False: no `sse_event_gap` samples; the response has the gaps. k6 keeps every sample of a trend until its end. Default true. */
    gapSamples?: boolean;
  }

  /**
   * How an exchange ended; every one has exactly one end.
   * - `done`, `error_event`: an event of `terminal.done`, `terminal.error` came; the first terminal event decides
   * - `eof`: the body ended as its framing says, without a terminal event
   * - `truncated`: the body stopped before that, or without a terminal event that is `required`
   * - `reset`: no connection, or it broke; `status` is 0 when that was before the head of the answer
   * - `timeout`: one of the three time-outs, or the connection took too long to make
   * - `refused`: a whole answer that is no event stream (not 200, or another content type); `body` has it
   * - `closed_by_client`: `client.close()`, an interrupted iteration, or an event over 8 MiB (`error` says which)
   * - `not_sent`: the budget did not let it leave (`error` says why)
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
    /** The last event id of the stream: it stays until another comes. */
    id: string;
    /** "" when the event has no name. */
    name: string;
    data: string;
    /** The last comment since the previous event. */
    comment: string;
  }

  export interface SseClient {
    /** Called once when a stream begins; not for a refusal. */
    on(event: "open", handler: () => void): void;
    /** Called for each event, late ones included. Reading waits for it; without a handler events cost the script nothing. */
    on(event: "event", handler: (event: SseEvent) => void): void;
    /** Called once, at the end, when `error` of the response is not empty. */
    on(event: "error", handler: (error: { error(): string }) => void): void;
    /** Ends the stream; harmless at any time. */
    close(): void;
  }

  export interface SseResponse {
    url: string;
    /** 0 when no answer came. */
    status: number;
    /** Names in Go's canonical form, such as `Retry-After`; several values are joined by ", ". */
    headers: Record<string, string>;
    /** "" when nothing broke. It may come with `done` as well: then the connection broke after the terminal event. */
    error: string;
    /** The body of an answer that is no event stream, up to 1 MiB; otherwise "". Whole only when `ended` is `refused`. */
    body: string;
    ended: SseEnd;
    /** Events that came, late ones included. */
    events: number;
    /** Events after the terminal one, within 250 ms or until the end of the body. */
    late: number;
    /** Whether a stream began. */
    opened: boolean;
    /** The distinct names of the events, in the order of their first coming. */
    names: readonly string[];
    /** Microseconds between each two events; the first 10,000. */
    gaps: readonly number[];
    /** The stream was left on purpose, after `closeAfterEvents`. */
    aborted: boolean;
    /** Microseconds that the budget held the call back. */
    held_us: number;
    /** Microseconds since 1970, here and below: when it was handed to the transport; null when the budget did not let it leave. */
    started_us: number | null;
    /** When a connection was made for it; 0 when one was reused, or none came to be. */
    connect_us: number;
    /** When the request was written; null when it never was. A request is never sent twice. */
    sent_us: number | null;
    /** The first byte of the head of the answer; null when none came. */
    first_us: number | null;
    /** When the first event was read, and when the last one was; null when none came. */
    first_event_us: number | null;
    last_event_us: number | null;
    /** When the terminal event was read, or when the exchange ended otherwise; null when nothing was started. */
    done_us: number | null;
  }

  /**
   * Makes one exchange and blocks the VU until it is over. What the server or the network did is in the response. It throws for what is
   * wrong in the script: the URL, an unknown or malformed parameter, the init context, and whatever a handler throws (the stream is
   * closed then). Redirects are not followed.
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

/** Beside `open`: what all VUs of the process have together, and calls that are printed for the runner. */
declare module "k6/x/floodgate" {
  import type { open as openStream, SseParams, SseUrl } from "k6/x/sse";

  export const open: typeof openStream;

  type Budget = import("../src/workload/budget.ts").Budget;
  type Spent = Omit<import("../src/workload/handover.ts").PrintedSpent, "type">;

  /**
   * Sets what all VUs of the process may spend together. It may be called in the init context, where each VU calls it with the same budget;
   * another one is an exception. SIGUSR1 ends the sending as a spent budget does.
   */
  export function budget(terms: Budget & { stated?: Budget }): void;

  /** What was spent so far; also without a budget, and in handleSummary. */
  export function spent(): Spent;

  /** Says that what came of the VU's last call is written down; the next `open`, `begin`, `turn` or `waitUntil` says the same. */
  export function settled(): void;

  /**
   * Waits until a moment, in microseconds since 1970, and returns true; at once where it is past. False: the iteration or all
   * sending ended before it.
   */
  export function waitUntil(us: number): boolean;

  /**
   * The schedule: microseconds from its zero, in order, kept once for all VUs. To be called in the init context by every VU; the first is
   * asked for it.
   */
  export function arrivals(momentsUs: () => readonly number[]): void;

  /**
   * Rests until an arrival is due and returns its number a little before that, or -1 where the iteration or all sending ended before.
   * The VU brings an arrival by its number, and the zero of the schedule (microseconds since 1970). Whoever came to rest last is given the
   * next that is due, so that no more VUs are used than calls are under way. A VU whose last call was made by `begin` takes arrivals
   * earlier, one right after the other.
   */
  export function turn(n: number, zeroUs: number): number;

  /** The moment of the arrival that `turn` gave the VU last. */
  export function turnUs(): number;

  /** Where `print` and `printCall` write to, for the whole process; to be called in the init context by every VU with the same path. */
  export function printTo(path: string): void;

  /** Writes a line, within 20 ms. */
  export function print(line: string): void;

  /**
   * Writes a line about the VU's newest `open`, as `Printed` of src/workload/handover.ts has it, with credentials masked; of a success
   * with a session (`isSession`) only what a judge reads. Of a call that was not sent nothing is written.
   */
  export function printCall(i: number, step: number, attempt: number, intendedUs: number, isSession: boolean): void;

  /** The same for an `open` that minted a session, as `PrintedMint`. */
  export function printMint(id: string, of: string, product: string): void;

  /** How many calls of `begin` may be under way at once in the process; every VU says the same. */
  export function callsAtOnce(most: number): void;

  const checked: unique symbol;
  /** Parameters that were checked. */
  export type SseKind = { readonly [checked]: true };

  /** Checks parameters once for all calls of `begin` that have them. */
  export function kind(params: SseParams): SseKind;

  /**
   * Makes one exchange beside the VU, without handlers, and prints what came of it as `printCall` does; credentials in body and error are
   * masked. `headers` are those that its kind does not have. The call leaves at `intendedUs` (microseconds since 1970), or at once where
   * that is past; the VU waits neither for that nor for the answer. Where as many calls as may be are under way, or wait for their moment,
   * it waits for one to end. False: the iteration or all sending ended before.
   */
  export function begin(
    url: SseUrl,
    kind: SseKind,
    headers: SseParams["headers"],
    body: SseParams["body"],
    i: number,
    step: number,
    attempt: number,
    intendedUs: number,
  ): boolean;

  /**
   * Waits until all calls of `begin` are over, at most for `limitMs` and, once all sending has ended, for `drainMs`; breaks off the rest,
   * which have no line and are counted as `cut`. To be called in teardown, for k6 ends when its VUs have nothing more to do.
   */
  export function finish(limitMs: number, drainMs: number): void;

  /** Writes what waits to be written at once. To be called after the last line. */
  export function printed(): void;

  /**
   * Waits until every call that left is settled, at most for `limitMs`, and returns true to the first VU that asks; false at once to all
   * others. To be followed by exec.test.abort, which would otherwise cut calls off before the script knows what came of them.
   */
  export function drain(limitMs: number): boolean;

  /** What a VU of the process last remembered under this name, or null. */
  export function recall(name: string): string | null;

  /** Keeps a text for all VUs of the process, and ends the claim on its name. */
  export function remember(name: string, text: string): void;

  /** True for the first VU that asks: it is to see to the name, and no other for so long, unless it remembers something before. */
  export function claim(name: string, limitMs: number): boolean;
}
