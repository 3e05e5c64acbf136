/**
 * One stream (items 166-180), spread over the service time and slowed by a slow reader. The slot is given back before
 * the last byte is written, so that what clients see in flight bounds what is in flight.
 */
import type { ServerResponse } from "node:http";
import { type ERROR_CODES, KEEP_ALIVE } from "../../../contract/streams.ts";
import type { FailPlan } from "../../control-plane.ts";
import type { Inference, Job } from "../../inference.ts";
import { closeWhenSent, cutConnection } from "../answer.ts";
import type { Frame, StreamVoice } from "./stream-script.ts";

/** A comment breaks a silence (item 177); a client that takes nothing for `stallMs` is cut off. */
export const STREAM_LIMITS = { keepAliveMs: 15_000, stallMs: 10_000, lifeMs: 600_000 };
export type StreamLimits = typeof STREAM_LIMITS;

export type StreamOutcome = "200" | "200 error";

type StreamedCall = {
  readonly response: ServerResponse;
  readonly context: { inference: Inference; parts: { voice: StreamVoice }; streamLimits: StreamLimits };
  /** Called before the last byte of the stream is written. */
  streamEnds(outcome: StreamOutcome): void;
};

export class StreamRun implements Job {
  readonly tokens: number;
  // Declared without a value: the inference sets it.
  state?: "waiting" | "running" | "over";
  queuedAtMs?: number;

  readonly #call: StreamedCall;
  readonly #frames: readonly Frame[];
  readonly #failure: FailPlan | null;
  readonly #openedMs = performance.now();
  #next = 0;
  #said = "";
  #startedMs: number | null = null;
  #serviceMs = 0;
  #lastWriteMs = this.#openedMs;
  #stalledSinceMs: number | null = null;
  #timer: NodeJS.Timeout | undefined;
  #over = false;

  constructor(call: StreamedCall, frames: readonly Frame[], tokens: number, failure: FailPlan | null) {
    this.#call = call;
    this.#frames = frames;
    this.tokens = tokens;
    this.#failure = failure;
  }

  open(headers: string[]): void {
    this.#call.response.writeHead(200, headers);
    this.#call.response.flushHeaders();
    this.#call.context.inference.submit(this);
    this.#arm();
  }

  start(serviceMs: number): void {
    this.#startedMs = performance.now();
    this.#serviceMs = serviceMs;
    this.#tick();
  }

  /** Nothing more is generated: the stream is over, or its connection gone. */
  abandon(): void {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#call.context.inference.release(this);
  }

  interrupt(): void {
    if (!this.#over) this.#fail("internal", "the service is stopping");
  }

  /** When frame `i` is due; never, before the inference has taken the call. */
  #dueMs(i: number): number {
    if (this.#startedMs === null) return Number.POSITIVE_INFINITY;
    return this.#startedMs + this.#call.context.parts.voice.dueMs(i, this.#frames.length, this.#serviceMs);
  }

  #arm(): void {
    if (this.#over) return;
    clearTimeout(this.#timer);
    const { keepAliveMs, lifeMs, stallMs } = this.#call.context.streamLimits;
    const dueMs =
      this.#stalledSinceMs === null
        ? Math.min(this.#lastWriteMs + keepAliveMs, this.#openedMs + lifeMs, this.#dueMs(this.#next))
        : this.#stalledSinceMs + stallMs;
    this.#timer = setTimeout(() => this.#tick(), Math.max(0, Math.ceil(dueMs - performance.now())));
  }

  #tick(): void {
    if (this.#over) return;
    const now = performance.now();
    const { keepAliveMs, lifeMs, stallMs } = this.#call.context.streamLimits;
    if (now - this.#openedMs >= lifeMs) this.#fail("upstream_timeout", "the stream lived too long");
    else if (this.#stalledSinceMs === null) this.#speak(now, keepAliveMs);
    else if (now - this.#stalledSinceMs >= stallMs) this.#call.response.destroy();
    else this.#arm();
  }

  #speak(now: number, keepAliveMs: number): void {
    const frames = this.#frames.length;
    // A failure that an operator ordered replaces the frame after its last event.
    const failAt = this.#failure === null ? frames : Math.min(this.#failure.after_events ?? 0, frames - 1);
    let text = "";
    while (this.#next < failAt && this.#dueMs(this.#next) <= now) {
      const frame = this.#frames[this.#next] as Frame;
      this.#next += 1;
      text += frame.wire;
      this.#said += frame.text;
    }
    if (this.#startedMs !== null && this.#next >= failAt) {
      this.#end(text);
      return;
    }
    if (text === "" && now - this.#lastWriteMs >= keepAliveMs) text = KEEP_ALIVE;
    if (text !== "") this.#write(text, now);
    this.#arm();
  }

  #write(text: string, now: number): void {
    this.#lastWriteMs = now;
    const { response } = this.#call;
    if (response.write(text)) return;
    this.#stalledSinceMs = now;
    response.once("drain", () => {
      this.#stalledSinceMs = null;
      this.#tick();
    });
  }

  /** All frames are out, or the failure that was ordered is due. */
  #end(lastText: string): void {
    const mode = this.#failure?.mode;
    if (mode === undefined) this.#finish("200", lastText);
    else if (mode === "truncate" || mode === "reset") {
      this.abandon();
      this.#call.streamEnds("200");
      cutConnection(this.#call.response, mode, lastText);
      this.#limitEnd();
    } else this.#fail("upstream_error", "the inference failed", lastText);
  }

  #fail(code: (typeof ERROR_CODES)[number], message: string, before = ""): void {
    // Nothing may follow a failure, not even on the connection (item 168).
    closeWhenSent(this.#call.response);
    const failure = this.#call.context.parts.voice.failure({ message, code, partial_text: this.#said });
    this.#finish("200 error", before + failure);
  }

  #finish(outcome: StreamOutcome, lastText: string): void {
    const { response } = this.#call;
    this.abandon();
    this.#call.streamEnds(outcome);
    response.end(lastText);
    if (response.writableLength > 0) this.#limitEnd();
  }

  #limitEnd(): void {
    const { response, context } = this.#call;
    const timer = setTimeout(() => response.destroy(), context.streamLimits.stallMs);
    response.once("close", () => clearTimeout(timer));
  }
}
