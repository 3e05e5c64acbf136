/** Mutants of event streams. */
import { ERROR_EVENT, writeEvent } from "../contract/streams.ts";
import { members, type Spoilt } from "./mutant.ts";

const EVERY = 50;

export const SPOILT_STREAMS: readonly Spoilt[] = [
  // The connection closed before the last write was flushed.
  {
    name: "drops-the-last-event",
    harm: "the person reads half an answer, and the client does not notice",
    kills: ["streams-end-once", "streams-cut"],
    stage: "streams",
    spoil: members("voice", (healthy) => ({
      script: (request) => healthy.script(request).slice(0, -1),
    })),
  },
  // A renderer that lost its template answers with the right status and type, and nothing else.
  {
    name: "answers-empty-streams",
    harm: "every person who asks is answered with nothing, and each status says that all is well",
    kills: ["streams-end-once"],
    stage: "streams",
    spoil: members("voice", () => ({
      script: () => [],
    })),
  },
  // A buffer of a connection that is given back before all of it was written, now and then.
  {
    name: "cuts-one-stream-in-fifty",
    harm: "one reader in fifty has half of an answer, on a connection that closed in order",
    kills: ["streams-cut", "streams-end-once"],
    stage: "many-streams",
    spoil: (healthy) => {
      let streams = 0;
      return {
        voice: {
          ...healthy.voice,
          script: (request) => {
            const frames = healthy.voice.script(request);
            streams += 1;
            return streams % EVERY === 0 ? frames.slice(0, Math.max(1, frames.length >> 1)) : frames;
          },
        },
      };
    },
  },
  // A kind of stream whose end only the connection shows.
  {
    name: "ends-without-done",
    harm: "on a bad line nobody can distinguish an answer that is complete from one that was cut",
    kills: ["streams-end-once", "streams-cut"],
    stage: "streams",
    spoil: members("voice", (healthy) => ({
      script: (request) => {
        const frames = healthy.script(request);
        return request.kind === "summary" ? frames.slice(0, -1) : frames;
      },
    })),
  },
  // The loop that writes events does not hear that the stream has failed.
  {
    name: "talks-after-error",
    harm: "a client shows the error and goes on typing",
    kills: ["streams-end-once"],
    stage: "streams",
    spoil: members("voice", (healthy) => ({
      failure: (error) => healthy.failure(error) + writeEvent("token", { type: "token", text: "and " }),
    })),
  },
  // One writer for all three streams.
  {
    name: "speaks-control-everywhere",
    harm: "summaries and popups stay empty: their clients ignore names that they do not know, as the contract asks",
    kills: ["stream-vocabularies-differ", "streams-end-once"],
    stage: "streams",
    spoil: members("voice", (healthy) => ({
      script: (request) => healthy.script({ ...request, kind: "control" }),
    })),
  },
  // A middleman that collects the answer and delivers it in one piece.
  {
    name: "buffers-the-stream",
    harm: "the person stares at nothing for as long as the whole answer takes",
    kills: ["events-are-not-buffered"],
    stage: "streams",
    spoil: members("voice", () => ({
      dueMs: (_i, _n, serviceMs) => serviceMs,
    })),
  },
  // The process ended as soon as it was asked to.
  {
    name: "drops-streams-on-deploy",
    harm: "each release cuts every conversation that was going on",
    kills: ["streams-end-once"],
    stage: "deploy",
    spoil: () => ({
      streamsFinishOnStop: false,
    }),
  },
  // An error event with less than the four fields.
  {
    name: "forgets-the-partial-text",
    harm: "the client has thrown away what it showed and has nothing to put back",
    kills: ["verify/stream-error-event"],
    stage: "verify",
    spoil: members("voice", () => ({
      failure: ({ code, message }) => writeEvent(ERROR_EVENT, { type: "error", code, message }),
    })),
  },
];
