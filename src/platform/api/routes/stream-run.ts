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
  readonly #limits: StreamLimits;
  readonly #frames: readonly Frame[];
  readonly #failure: FailPlan | null;
  readonly #openedMs = performance.now();
  #next = 0;
  #said = "";
  #startedMs = -1;
  #serviceMs = 0;
  #lastWriteMs = this.#openedMs;
  #stalledSinceMs = -1;
  #timer: NodeJS.Timeout | undefined;
  #over = false;

  constructor(call: StreamedCall, frames: readonly Frame[], tokens: number, failure: FailPlan | null) {
    this.#call = call;
    this.#limits = call.context.streamLimits;
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

  /** Called when the connection is gone, whoever ended it. Nothing more is generated. */
  abandon(): void {
    this.#stop();
    this.#call.context.inference.release(this);
  }

  interrupt(): void {
    if (!this.#over) this.#fail("internal", "the service is stopping");
  }

  #stop(): void {
    this.#over = true;
    clearTimeout(this.#timer);
  }

  #arm(): void {
    if (this.#over) return;
    clearTimeout(this.#timer);
    const now = performance.now();
    let dueMs = Math.min(this.#lastWriteMs + this.#limits.keepAliveMs, this.#openedMs + this.#limits.lifeMs);
    if (this.#stalledSinceMs >= 0) dueMs = this.#stalledSinceMs + this.#limits.stallMs;
    else if (this.#startedMs >= 0) dueMs = Math.min(dueMs, this.#startedMs + this.#dueMs(this.#next));
    this.#timer = setTimeout(onTimer, Math.max(0, Math.ceil(dueMs - now)), this);
  }

  #dueMs(i: number): number {
    return this.#call.context.parts.voice.dueMs(i, this.#frames.length, this.#serviceMs);
  }

  onTimer(): void {
    if (!this.#over) this.#tick();
  }

  #tick(): void {
    const now = performance.now();
    const limits = this.#limits;
    if (now - this.#openedMs >= limits.lifeMs) {
      this.#fail("upstream_timeout", "the stream lived too long");
      return;
    }
    if (this.#stalledSinceMs >= 0) {
      if (now - this.#stalledSinceMs >= limits.stallMs) this.#call.response.destroy();
      else this.#arm();
      return;
    }
    let text = "";
    if (this.#startedMs >= 0) {
      const last = this.#frames.length - 1;
      // A failure that an operator ordered replaces the frame after its last event.
      const failAt = this.#failure === null ? -1 : Math.min(this.#failure.after_events ?? 0, last);
      const elapsed = now - this.#startedMs;
      while (this.#next <= last && this.#next !== failAt && this.#dueMs(this.#next) <= elapsed) {
        const frame = this.#frames[this.#next] as Frame;
        this.#next += 1;
        text += frame.wire;
        this.#said += frame.text;
      }
      if (this.#next > last) {
        this.#finish("200", text);
        return;
      }
      if (this.#next === failAt) {
        this.#failAsOrdered(text, (this.#failure as FailPlan).mode);
        return;
      }
    }
    if (text === "" && now - this.#lastWriteMs >= limits.keepAliveMs) text = KEEP_ALIVE;
    if (text !== "") this.#write(text, now);
    this.#arm();
  }

  #write(text: string, now: number): void {
    this.#lastWriteMs = now;
    const { response } = this.#call;
    if (response.write(text)) return;
    this.#stalledSinceMs = now;
    response.once("drain", () => {
      this.#stalledSinceMs = -1;
      if (!this.#over) this.#tick();
    });
  }

  /** Ends the call for our counts before its last byte leaves. */
  #finish(outcome: StreamOutcome, lastText: string): void {
    this.#stop();
    const { context, response } = this.#call;
    context.inference.release(this);
    this.#call.streamEnds(outcome);
    response.end(lastText);
    if (response.writableLength > 0) this.#limitEnd();
  }

  #limitEnd(): void {
    const { response } = this.#call;
    const timer = setTimeout(() => response.destroy(), this.#limits.stallMs);
    response.once("close", () => clearTimeout(timer));
  }

  #fail(code: (typeof ERROR_CODES)[number], message: string, before = ""): void {
    // Nothing may follow a failure, not even on the connection (item 168).
    closeWhenSent(this.#call.response);
    this.#finish(
      "200 error",
      before + this.#call.context.parts.voice.failure({ message, code, partial_text: this.#said }),
    );
  }

  #failAsOrdered(text: string, mode: FailPlan["mode"]): void {
    if (mode === "error_event" || mode === "route_error") {
      this.#fail("upstream_error", "the inference failed", text);
      return;
    }
    this.#stop();
    const { context, response } = this.#call;
    context.inference.release(this);
    this.#call.streamEnds("200");
    cutConnection(response, mode, text);
    this.#limitEnd();
  }
}

const onTimer = (run: StreamRun): void => run.onTimer();
