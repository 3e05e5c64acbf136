/**
 * One stream (items 166-180), spread over the service time and slowed by a slow reader. The slot is released before the
 * last byte is written, so that clients never see fewer streams in flight than hold a slot.
 */
import type { ServerResponse } from "node:http";
import type { Stream } from "../../../contract/routes.ts";
import {
  type ERROR_CODES,
  ERROR_EVENT,
  type ErrorEvent,
  KEEP_ALIVE,
  VOCABULARIES,
  writeEvent,
} from "../../../contract/streams.ts";
import type { FailPlan } from "../../control-plane.ts";
import type { Inference, Job } from "../../inference.ts";
import { closeWhenSent, cutConnection } from "../answer.ts";

// The frames of the three streams (items 92-95, 104-105, 166-179), whose event names differ on purpose.

/** `text` is what the frame adds to the words said so far (`partial_text` of an error). */
type Frame = { readonly wire: string; readonly text: string };

type StreamRequest = {
  kind: Stream;
  tokens: number;
  body: Record<string, unknown>;
  sessionId: string;
  /** The organization's chat turns: informational (item 171). */
  quota: { limit: number; used: number };
};

const WORDS =
  "The harbour road turns north past the old mill and the market square then follows the river to the station".split(
    " ",
  );

const frame = (name: string, fields: object, text = ""): Frame => {
  return { wire: writeEvent(name, { type: name, ...fields }), text };
};

const CONTENT: Readonly<Record<Stream, (text: string) => Frame>> = {
  control: (text) => frame("token", { text }, text),
  summary: (text) => frame("summary_delta", { delta: text }, text),
  button: (text) => frame("chunk", { content: text }, text),
};

const WRITTEN: Record<Stream, Frame[]> = { control: [], summary: [], button: [] };

const contentFrames = (kind: Stream, count: number): Frame[] => {
  const written = WRITTEN[kind];
  while (written.length < count) written.push(CONTENT[kind](`${WORDS[written.length % WORDS.length]} `));
  return written.slice(0, count);
};

const ACTION = frame("action", { action: "fly_to", args: { zoom: 12 } });

const quotaFrame = ({ limit, used }: StreamRequest["quota"]): Frame =>
  frame("quota", { meter: "chat_turns", limit, used, remaining: Math.max(0, limit - used) });

const terminalFrame = ({ kind, sessionId, body }: StreamRequest): Frame => {
  const fields = { control: { session_id: sessionId }, summary: { summary_type: body.type }, button: {} };
  return frame(VOCABULARIES[kind].done, fields[kind]);
};

/** A control stream has `quota` in the middle, and begins with an action if the caller asked for actions. */
const streamScript = (request: StreamRequest): readonly Frame[] => {
  const { kind, tokens, body, quota } = request;
  const frames = contentFrames(kind, tokens);
  const terminal = terminalFrame(request);
  if (kind !== "control") return frames.concat(terminal);
  const half = Math.floor(frames.length / 2);
  const first = body.auto_actions ? [ACTION] : [];
  // `concat` makes a list of exactly the needed size, because the list lives as long as the stream.
  return first.concat(frames.slice(0, half), quotaFrame(quota), frames.slice(half), terminal);
};

export const HEALTHY_VOICE = {
  script: streamScript,
  /** The frame that ends a failed stream; nothing may follow it (items 167-168). */
  failure: (error: Omit<ErrorEvent, "type">): string => writeEvent(ERROR_EVENT, { type: "error", ...error }),
  /** When frame `i` of `n` is due, in milliseconds after the inference has started the call. */
  dueMs: (i: number, n: number, serviceMs: number): number => (serviceMs * (i + 1)) / n,
};
export type StreamVoice = typeof HEALTHY_VOICE;

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
    if (started !== null && next >= endsAt) return void end(text);
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
