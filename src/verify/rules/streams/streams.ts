/**
 * How the event streams are written down (section 6; items 8, 92-94, 166, 176): content type, encoding, frames. What they say
 * stands in `stream-contracts.ts`, how they end in `stream-ends.ts`, when events come in `stream-buffering.ts`.
 */
import { foreignHeader, foreignName, shapeOf, shapeOfBody } from "../../../contract/foreign-text.ts";
import type { Stream } from "../../../contract/routes.ts";
import type { Rule } from "../../rule.ts";
import type { Answer } from "../../sending/answer.ts";
import type { SseText } from "../../sending/sse-text.ts";
import { streamBuffering } from "./stream-buffering.ts";
import { streamContracts } from "./stream-contracts.ts";
import { ALL_STREAMS, isOpen, SHARED_EVENTS, streamRule } from "./stream-specimens.ts";

const contentType = streamRule(
  {
    id: "stream-content-type",
    level: "must",
    spec: [8, 92, 93, 94],
    title: "a streaming endpoint answers with the content type text/event-stream",
  },
  ALL_STREAMS,
  (checks, { answer }) => {
    const type = answer.headers["content-type"] ?? "none";
    checks.require(
      /^\s*text\/event-stream\s*(;|$)/i.test(type),
      answer,
      "text/event-stream",
      `it was ${foreignHeader(type)}`,
    );
  },
  isOpen,
);

/** The encodings of a connection or a proxy are no part of the stream. */
const isPlain = ({ headers }: Answer): boolean => /^(identity)?$/i.test(headers["content-encoding"]?.trim() ?? "");

/** The HTML standard, section 9.2.5: event streams are always encoded as UTF-8, whatever a charset says. */
const isUtf8 = streamRule(
  {
    id: "stream-is-utf8",
    level: "must",
    spec: [8, 166],
    title: "an event stream is encoded as UTF-8, as its content type says",
  },
  ALL_STREAMS,
  (checks, { stream, answer }) => {
    if (!isPlain(answer))
      return checks.note(`${stream}: encoded as ${foreignName(answer.headers["content-encoding"] ?? "")}`);
    const at = answer.chunks.find(({ notUtf8 }) => notUtf8 === true);
    const got = `there were bytes that are none, in a piece of ${at?.text.length} characters`;
    checks.require(at === undefined, answer, "bytes that are UTF-8", got);
  },
);

const frameFault = ({ frames, strange }: SseText): string | null => {
  if (strange.length > 0) return `a line that is no field of an event: ${shapeOf(strange[0])}`;
  let events = 0;
  for (const { event, data, json, inOrder } of frames) {
    if (data === null) {
      // By the standard such a frame is no event at all, so nobody misses anything but a stated one.
      if (SHARED_EVENTS.has(event)) return `the event ${event} without data`;
      continue;
    }
    events += 1;
    if (event === null || event === "") return `an event without a name, with the data ${shapeOfBody(data, json)}`;
    if (json === undefined) return `the event ${foreignName(event)} with ${shapeOfBody(data, json)}`;
    if (!inOrder) return `the data of the event ${foreignName(event)} before its name`;
  }
  return events === 0 ? "no event at all" : null;
};

const framesRule = (id: string, level: "must" | "info", only: readonly Stream[], title: string): Rule =>
  streamRule({ id, level, spec: level === "must" ? [166] : [166, 176], title }, only, (checks, { answer, sse }) => {
    const fault = frameFault(sse);
    checks.require(fault === null, answer, "event: <name>, then data: <JSON>, in every frame", `there was ${fault}`);
  });

export const STREAM_RULES: readonly Rule[] = [
  contentType,
  isUtf8,
  framesRule(
    "stream-frames",
    "must",
    ["control"],
    "every frame of the control stream is event: <name>, then data: <JSON>",
  ),
  framesRule(
    "stream-frames-of-others",
    "info",
    ["summary", "button"],
    "whether the frames of the other two streams have the same syntax (A10)",
  ),
  streamContracts,
  streamBuffering,
];
