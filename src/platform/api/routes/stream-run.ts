/**
 * One stream (items 166-180), spread over the service time and slowed by a slow reader. The slot is released before the
 * last byte is written, so that clients never see fewer streams in flight than hold a slot.
 */
import type { ServerResponse } from "node:http";
import { type ERROR_CODES, KEEP_ALIVE } from "../../../contract/streams.ts";
import type { FailPlan } from "../../control-plane.ts";
import type { Inference, Job } from "../../inference.ts";
import { closeWhenSent, cutConnection } from "../answer.ts";
import type { Frame, StreamVoice } from "./stream-script.ts";

/** A comment breaks each silence of `keepAliveMs` (item 177); a client that reads nothing for `stallMs` is cut off. */
export const STREAM_LIMITS = { keepAliveMs: 15_000, stallMs: 10_000, lifeMs: 600_000 };
export type StreamLimits = typeof STREAM_LIMITS;

export type StreamOutcome = "200" | "200 error";

type StreamedCall = {
  readonly response: ServerResponse;
  readonly context: { inference: Inference; parts: { voice: StreamVoice }; streamLimits: StreamLimits };
  /** Called before the last byte of the stream is written. */
  streamEnds(outcome: StreamOutcome): void;
};

export const streamRun = (call: StreamedCall, frames: readonly Frame[], failure: FailPlan | null) => {
  const { response, context } = call;
  const { inference, streamLimits: limits } = context;
  const { voice } = context.parts;
  const openedMs = performance.now();
  /** The number of frames to send; a failure that an operator ordered takes the place of the next one. */
  const endsAt = failure === null ? frames.length : Math.min(failure.after_events ?? 0, frames.length - 1);
  let next = 0;
  let said = "";
  let started: { atMs: number; serviceMs: number } | null = null;
  let lastWriteMs = openedMs;
  let stalledSinceMs: number | null = null;
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;

  /** When frame `i` is due; infinite until the inference has started the call. */
  const frameDueMs = (i: number): number =>
    started === null ? Number.POSITIVE_INFINITY : started.atMs + voice.dueMs(i, frames.length, started.serviceMs);

  const arm = (): void => {
    if (isOver) return;
    clearTimeout(timer);
    const dueMs =
      stalledSinceMs === null
        ? Math.min(lastWriteMs + limits.keepAliveMs, openedMs + limits.lifeMs, frameDueMs(next))
        : stalledSinceMs + limits.stallMs;
    timer = setTimeout(tick, Math.max(0, Math.ceil(dueMs - performance.now())));
  };

  const tick = (): void => {
    if (isOver) return;
    const now = performance.now();
    if (now - openedMs >= limits.lifeMs) fail("upstream_timeout", "the stream lived too long");
    else if (stalledSinceMs === null) speak(now);
    else if (now - stalledSinceMs >= limits.stallMs) response.destroy();
    else arm();
  };

  const speak = (now: number): void => {
    let text = "";
    while (next < endsAt && frameDueMs(next) <= now) {
      const frame = frames[next] as Frame;
      next += 1;
      text += frame.wire;
      said += frame.text;
    }
    if (started !== null && next >= endsAt) {
      end(text);
      return;
    }
    if (text === "" && now - lastWriteMs >= limits.keepAliveMs) text = KEEP_ALIVE;
    if (text !== "") write(text, now);
    arm();
  };

  const write = (text: string, now: number): void => {
    lastWriteMs = now;
    if (response.write(text)) return;
    stalledSinceMs = now;
    response.once("drain", () => {
      stalledSinceMs = null;
      tick();
    });
  };

  /** Ends the stream after all frames, by the ordered failure if there is one. */
  const end = (lastText: string): void => {
    if (failure === null) finish("200", lastText);
    else if (failure.mode === "truncate" || failure.mode === "reset") {
      abandon();
      call.streamEnds("200");
      cutConnection(response, failure.mode, lastText);
      limitEnd();
    } else fail("upstream_error", "the inference failed", lastText);
  };

  const fail = (code: (typeof ERROR_CODES)[number], message: string, before = ""): void => {
    // Nothing may follow a failure, not even on the connection (item 168).
    closeWhenSent(response);
    finish("200 error", before + voice.failure({ message, code, partial_text: said }));
  };

  const finish = (outcome: StreamOutcome, lastText: string): void => {
    abandon();
    call.streamEnds(outcome);
    response.end(lastText);
    if (response.writableLength > 0) limitEnd();
  };

  const limitEnd = (): void => {
    const ending = setTimeout(() => response.destroy(), limits.stallMs);
    response.once("close", () => clearTimeout(ending));
  };

  /** Stops generating, because the stream is over or its connection gone. */
  const abandon = (): void => {
    isOver = true;
    clearTimeout(timer);
    inference.release(job);
  };

  const job: Job = {
    tokens: inference.options.tokens,
    start: (serviceMs) => {
      started = { atMs: performance.now(), serviceMs };
      tick();
    },
  };
  return {
    open: (headers: string[]): void => {
      response.writeHead(200, headers);
      response.flushHeaders();
      inference.submit(job);
      arm();
    },
    abandon,
    interrupt: (): void => {
      if (!isOver) fail("internal", "the service is stopping");
    },
  };
};

export type StreamRun = ReturnType<typeof streamRun>;
