import { ERROR_EVENT, writeEvent } from "../contract/streams.ts";
import { members, scripting, spoilt } from "./mutant.ts";

const EVERY = 50;

export const SPOILT_STREAMS = spoilt(
  // biome-ignore format: a row is a line
  [
    ["drops-the-last-event", "streams", ["streams-end-once", "streams-cut"], "the person reads half an answer, and the client does not notice"],
    ["answers-empty-streams", "streams", ["streams-end-once"], "every person who asks is answered with nothing, and each status says that all is well"],
    ["cuts-one-stream-in-fifty", "many-streams", ["streams-cut", "streams-end-once"], "one reader in fifty has half of an answer, on a connection that closed in order"],
    ["ends-without-done", "streams", ["streams-end-once", "streams-cut"], "on a bad line nobody can distinguish an answer that is complete from one that was cut"],
    ["talks-after-error", "streams", ["streams-end-once"], "a client shows the error and goes on typing"],
    ["speaks-control-everywhere", "streams", ["stream-vocabularies-differ", "streams-end-once"], "summaries and popups stay empty: their clients ignore names that they do not know, as the contract asks"],
    ["buffers-the-stream", "streams", ["events-are-not-buffered"], "the person stares at nothing for as long as the whole answer takes"],
    ["drops-streams-on-deploy", "deploy", ["streams-end-once"], "each release cuts every conversation that was going on"],
    ["forgets-the-partial-text", "verify", ["verify/stream-error-event"], "the client has thrown away what it showed and has nothing to put back"],
  ],
  {
    // The connection is closed before the last write is flushed.
    "drops-the-last-event": scripting((frames) => frames.slice(0, -1)),
    // A renderer without its template answers with the right status and type, and nothing else.
    "answers-empty-streams": scripting(() => []),
    // A connection's buffer is sometimes released before all of it is written.
    "cuts-one-stream-in-fifty": scripting((frames, n) =>
      n % EVERY === 0 ? frames.slice(0, Math.max(1, frames.length >> 1)) : frames,
    ),
    "ends-without-done": scripting((frames, _, kind) => (kind === "summary" ? frames.slice(0, -1) : frames)),
    // The loop that writes events does not notice that the stream has failed.
    "talks-after-error": members("voice", (healthy) => ({
      failure: (error) => healthy.failure(error) + writeEvent("token", { type: "token", text: "and " }),
    })),
    "speaks-control-everywhere": members("voice", (healthy) => ({
      script: (request) => healthy.script({ ...request, kind: "control" }),
    })),
    // A proxy collects the answer and delivers it in one piece.
    "buffers-the-stream": members("voice", () => ({ dueMs: (_i, _n, serviceMs) => serviceMs })),
    "drops-streams-on-deploy": () => ({ streamsFinishOnStop: false }),
    "forgets-the-partial-text": members("voice", () => ({
      failure: ({ code, message }) => writeEvent(ERROR_EVENT, { type: "error", code, message }),
    })),
  },
);
