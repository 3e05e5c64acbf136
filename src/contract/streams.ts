/**
 * The three event vocabularies and which event ends each (specification section 6; items 92-95, 104-105, 166-176). They
 * differ on purpose: a client that reuses the control parser for the other two must fail a test.
 */
import type { Stream } from "./routes.ts";

type Vocabulary = {
  /** Events that carry content, in any number. */
  readonly content: readonly string[];
  /** The event that ends a successful stream. */
  readonly done: string;
  /** Whether the mid-stream `quota` event belongs to it (A10). */
  readonly quota: boolean;
};

export const VOCABULARIES: Readonly<Record<Stream, Vocabulary>> = {
  control: { content: ["token", "action"], done: "done", quota: true },
  summary: { content: ["summary_delta"], done: "summary_done", quota: false },
  button: { content: ["chunk"], done: "end", quota: false },
};

export const STREAMS = Object.keys(VOCABULARIES) as readonly Stream[];

/** Terminal in every vocabulary (items 167-168). */
export const ERROR_EVENT = "error";

/** `code` values that the reference platform uses (item 174). */
export const ERROR_CODES = ["upstream_timeout", "upstream_error", "content_blocked", "internal"] as const;

export type ErrorEvent = { type: "error"; message: string; code: string; partial_text: string };

/** The eight ways in which a stream ends: each stream ends in exactly one. */
export type StreamEnd =
  | "done"
  | "error_event"
  | "eof"
  | "truncated"
  | "reset"
  | "timeout"
  | "refused"
  | "closed_by_client";

export const STREAM_ENDS: readonly StreamEnd[] = [
  "done",
  "error_event",
  "eof",
  "truncated",
  "reset",
  "timeout",
  "refused",
  "closed_by_client",
];

/** `stream_end` of a target file: the event that ends a whole stream of each kind, as far as it is stated. */
export type StatedStreamEnds = { readonly [kind in Stream]?: string | null };

/** What the reference platform states. */
export const REFERENCE_STREAM_ENDS: StatedStreamEnds = Object.fromEntries(
  STREAMS.map((kind) => [kind, VOCABULARIES[kind].done]),
);

export type LastEvent = {
  readonly name: string;
  /**
   * Whether the deployment promises it, so that a stream without it is cut. The specification names no such event (item 173): of
   * a deployment that states none, the reference's name is looked for, and its absence says nothing.
   */
  readonly isStated: boolean;
};

export const lastEventOf = (kind: Stream, stated: StatedStreamEnds = {}): LastEvent => {
  const name = stated[kind] ?? undefined;
  return name === undefined ? { name: VOCABULARIES[kind].done, isStated: false } : { name, isStated: true };
};

/** Why a stream counts as truncated whose body ended in order, as one of the words of `transport-codes.ts`. */
export const NO_LAST_EVENT = "no_last_event";

/** How a body that ended as its framing says ends its stream. Without any event it is empty, and no part of one. */
export const endOfBody = (events: number, { isStated }: Pick<LastEvent, "isStated">): "eof" | "truncated" =>
  isStated && events > 0 ? "truncated" : "eof";

/** What is seen of how a stream ended; nothing of it on a call that is no stream. */
export type StreamEnding = {
  readonly ended?: StreamEnd;
  /** Absent where events were not counted. */
  readonly events?: number;
  /** The caller left it on purpose. */
  readonly aborted?: boolean;
};

/**
 * What an admitted call came to for its caller; every figure and every judge goes by this.
 * - `whole`: an answer that is no stream, or a stream that came to its end. Where no last event is known, an end of the body
 *   in order is one, after one event at least
 * - `failed`: it ended by an `error` event: an end of its own, and no success
 * - `empty`: it ended in order without one event, or what came was no event stream: no answer
 * - `cut`: it broke off, or fell silent
 * - `left`: the caller left it
 */
type StreamResult = "whole" | "failed" | "empty" | "cut" | "left";

export const streamResult = ({ ended, events, aborted }: StreamEnding): StreamResult => {
  if (aborted === true || ended === "closed_by_client") return "left";
  if (ended === undefined || ended === "done") return "whole";
  if (ended === "error_event") return "failed";
  if (ended === "refused") return "empty";
  if (ended === "eof") return events === 0 ? "empty" : "whole";
  return "cut";
};

/** Whether the answer came to an end of its own, so that its time is the time of an answer. */
export const isWholeAnswer = (ending: StreamEnding): boolean => {
  const result = streamResult(ending);
  return result === "whole" || result === "failed";
};

/** A stream without one event, however it ended: to its caller no answer came, unless the caller left before. */
export const isAnswerless = (ending: StreamEnding): boolean => {
  const result = streamResult(ending);
  return result === "empty" || (result === "cut" && ending.events === 0);
};

/** One frame: `event:`, `data:`, a blank line (item 166). `data` is JSON without line breaks, as `JSON.stringify` gives it. */
export const writeEvent = (name: string, data: unknown): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

/** Comment line that keeps an idle connection open (item 177); not an event. */
export const KEEP_ALIVE = ": ping\n\n";
