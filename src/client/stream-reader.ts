/** Reads one event stream: number, names and times of events (specification section 6; items 166-177), not comments. */
import { createParser } from "eventsource-parser";
import { EVENT_NAMES_MOST, foreignName } from "../contract/foreign-text.ts";
import { ERROR_EVENT, type LastEvent } from "../contract/streams.ts";

export type SeenEvent = { name: string; data: string };

const nothingSeen = () => ({
  events: 0,
  late: 0,
  firstUs: null as number | null,
  terminal: null as { ended: "done" | "error_event"; atUs: number } | null,
  lastUs: null as number | null,
  /** The first `EVENT_NAMES_MOST` distinct names, made safe for display. */
  names: new Set<string>(),
  /** Microseconds between consecutive events; the first `GAPS_KEPT`. */
  gapsUs: [] as number[],
  kept: [] as SeenEvent[],
});

export type StreamSeen = ReturnType<typeof nothingSeen>;

/** The same limit as in k6/x/sse; bounds the memory of an endless stream. */
const GAPS_KEPT = 10_000;
/** The same limit as in k6/x/sse. A larger event is the server's fault, not load. */
const EVENT_MAX_CHARS = 2 << 20;
const KEPT_MOST = 20_000;

export type StreamReader = ReturnType<typeof createStreamReader>;

export const createStreamReader = ({ name: done }: LastEvent, keepEvents: boolean) => {
  const seen = nothingSeen();
  const decoder = new TextDecoder();
  let nowUs = 0;
  const parser = createParser({
    maxBufferSize: EVENT_MAX_CHARS,
    onEvent: ({ event, data }) => {
      const name = event ?? "message";
      seen.events += 1;
      if (!seen.names.has(name) && seen.names.size < EVENT_NAMES_MOST) seen.names.add(foreignName(name));
      if (seen.firstUs === null) seen.firstUs = nowUs;
      else if (seen.gapsUs.length < GAPS_KEPT) seen.gapsUs.push(nowUs - (seen.lastUs ?? nowUs));
      seen.lastUs = nowUs;
      if (keepEvents && seen.kept.length < KEPT_MOST) seen.kept.push({ name, data });
      if (seen.terminal !== null) seen.late += 1;
      else if (name === done) seen.terminal = { ended: "done", atUs: nowUs };
      else if (name === ERROR_EVENT) seen.terminal = { ended: "error_event", atUs: nowUs };
    },
  });
  return {
    seen,
    /** `atUs`: when the chunk was read. */
    feed: (chunk: Uint8Array, atUs: number): void => {
      nowUs = atUs;
      parser.feed(decoder.decode(chunk, { stream: true }));
    },
  };
};
