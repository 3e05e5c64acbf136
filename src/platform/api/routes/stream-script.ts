/** The frames of the three streams (items 92-95, 104-105, 166-179), whose event names differ on purpose. */
import type { Stream } from "../../../contract/routes.ts";
import { ERROR_EVENT, type ErrorEvent, VOCABULARIES, writeEvent } from "../../../contract/streams.ts";

/** `text` is what the frame adds to the words said so far (`partial_text` of an error). */
export type Frame = { readonly wire: string; readonly text: string };

type StreamRequest = {
  kind: Stream;
  tokens: number;
  body: Record<string, unknown>;
  sessionId: string;
  /** The organization's chat turns: informational (item 171). */
  quota: { limit: number; used: number };
};

export type StreamVoice = {
  script(request: StreamRequest): readonly Frame[];
  /** The frame that ends a failed stream; nothing may follow it (items 167-168). */
  failure(error: Omit<ErrorEvent, "type">): string;
  /** When frame `i` of `n` is due, in milliseconds after the inference has started the call. */
  dueMs(i: number, n: number, serviceMs: number): number;
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

export const HEALTHY_VOICE: StreamVoice = {
  script: streamScript,
  failure: (error) => writeEvent(ERROR_EVENT, { type: "error", ...error }),
  dueMs: (i, n, serviceMs) => (serviceMs * (i + 1)) / n,
};
