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

/** Terminal in every vocabulary (items 167-168). */
export const ERROR_EVENT = "error";

/** `code` values that the reference platform uses (item 174). */
export const ERROR_CODES = ["upstream_timeout", "upstream_error", "content_blocked", "internal"] as const;

export type ErrorEvent = { type: "error"; message: string; code: string; partial_text: string };

/** The eight ways in which a stream ends (design.md section 2, "k6 with SSE"): each stream ends in exactly one. */
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

/** One frame: `event:`, `data:`, a blank line (item 166). `data` is JSON without line breaks, as `JSON.stringify` gives it. */
export const writeEvent = (name: string, data: unknown): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

/** Comment line that keeps an idle connection open (item 177); not an event. */
export const KEEP_ALIVE = ": ping\n\n";
