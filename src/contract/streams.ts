/** The three event vocabularies (section 6; items 92-95, 104-105, 166-176). Each needs its own parser. */
import type { Stream } from "./routes.ts";

/** `quota`: whether it has the mid-stream event (A10). */
export const VOCABULARIES: Readonly<Record<Stream, { content: readonly string[]; done: string; quota: boolean }>> = {
  control: { content: ["token", "action"], done: "done", quota: true },
  summary: { content: ["summary_delta"], done: "summary_done", quota: false },
  button: { content: ["chunk"], done: "end", quota: false },
};

/** The events of a stream that does not fail. */
export const eventNamesOf = (stream: Stream): string[] => {
  const { content, done, quota } = VOCABULARIES[stream];
  return [...content, ...(quota ? ["quota"] : []), done];
};

export const STREAMS = Object.keys(VOCABULARIES) as readonly Stream[];

/** The members of a `Content-Type`, which proxies sometimes send twice (RFC 9110 section 8.3). */
export const mediaTypes = (contentType: string | readonly string[] | undefined): string[] =>
  [contentType ?? []].flat().flatMap((value) => value.split(",").map((type) => type.trim()));

/** Reports whether the first member of a `Content-Type` is that of an event stream, as k6/x/sse does. */
export const isEventStream = (contentType: string | readonly string[] | undefined): boolean =>
  /^text\/event-stream\s*(;|$)/i.test(mediaTypes(contentType)[0] ?? "");

/** The event that ends a failed stream in every vocabulary (items 167-168). */
export const ERROR_EVENT = "error";

/** `code` values that the reference platform uses (item 174). */
export const ERROR_CODES = ["upstream_timeout", "upstream_error", "content_blocked", "internal"] as const;

export type ErrorEvent = { type: "error"; message: string; code: string; partial_text: string };

export const STREAM_ENDS = [
  ...(["done", "error_event", "eof", "truncated", "reset", "timeout", "refused", "closed_by_client"] as const),
];

export type StreamEnd = (typeof STREAM_ENDS)[number];

/** `stream_end` of a target file: the last event of a whole stream of each kind, if stated. */
export type StatedStreamEnds = { readonly [kind in Stream]?: string };

export const REFERENCE_STREAM_ENDS: StatedStreamEnds = Object.fromEntries(
  STREAMS.map((kind) => [kind, VOCABULARIES[kind].done]),
);

export type LastEvent = {
  readonly name: string;
  /** The deployment promises this event, so a stream without it is cut. If false (item 173), it may be absent. */
  readonly isStated: boolean;
};

export const lastEventOf = (kind: Stream, stated: StatedStreamEnds = {}): LastEvent => {
  const name = stated[kind] ?? VOCABULARIES[kind].done;
  return { name, isStated: typeof stated[kind] === "string" };
};

/** The code of `transport-codes.ts` for a stream that ended cleanly without its stated last event. */
export const NO_LAST_EVENT = "no_last_event";

/** The end of a stream whose body ended cleanly. A stream without any event is `eof`, not `truncated`. */
export const endOfBody = (events: number, { isStated }: Pick<LastEvent, "isStated">): "eof" | "truncated" =>
  isStated && events > 0 ? "truncated" : "eof";

/** Empty for calls that are no streams. */
export type StreamEnding = {
  readonly ended?: StreamEnd;
  /** Absent if events were not counted. */
  readonly events?: number;
  /** The caller left the stream on purpose. */
  readonly aborted?: boolean;
};

/** The result of an admitted call for its caller; the README has the table. A call without a stream is `whole`. */
export const streamResult = ({ ended, events, aborted }: StreamEnding) => {
  if (aborted === true || ended === "closed_by_client") return "left";
  if (ended === undefined || ended === "done") return "whole";
  if (ended === "error_event") return "failed";
  if (ended === "refused") return "empty";
  if (ended === "eof") return events === 0 ? "empty" : "whole";
  return "cut";
};

/** Reports whether the server ended the answer, so that its duration counts as an answer's. */
export const isWholeAnswer = (ending: StreamEnding): boolean => /^(?:whole|failed)$/.test(streamResult(ending));

/** Reports whether a stream had no event although its caller stayed, which counts as no answer. */
export const isAnswerless = (ending: StreamEnding): boolean => {
  const result = streamResult(ending);
  return result === "empty" || (result === "cut" && ending.events === 0);
};

/** One frame: `event:`, `data:`, a blank line (item 166). JSON.stringify leaves no line breaks in `data`. */
export const writeEvent = (name: string, data: unknown): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

/** Comment line that keeps an idle connection open (item 177); not an event. */
export const KEEP_ALIVE = ": ping\n\n";
