/**
 * Notes every piece of an answer's body as it passes, with its time: what the rules about streams look at. Apart, because the
 * drivers read a stream for its events alone.
 */
import type { Dispatcher } from "undici";
import type { RunClock } from "../../client/clock.ts";
import type { Chunk } from "./answer.ts";

/** A letter may be spread over two pieces, and an answer may be left in the middle of one. `true` once, at the first break. */
const utf8Breaks = (): ((chunk: Uint8Array) => boolean) => {
  const strict = new TextDecoder("utf-8", { fatal: true });
  let broken = false;
  return (chunk) => {
    if (broken) return false;
    try {
      strict.decode(chunk, { stream: true });
    } catch {
      broken = true;
    }
    return broken;
  };
};

const PASSED_ON = [
  "onRequestStart",
  "onResponseStarted",
  "onResponseStart",
  "onResponseEnd",
  "onResponseError",
] as const;

/** The same dispatcher; what comes is added to `chunks`, up to the piece that goes beyond `mostBytes`. */
export const tapped = (dispatcher: Dispatcher, clock: RunClock, chunks: Chunk[], mostBytes: number): Dispatcher => {
  let bytes = 0;
  const decoder = new TextDecoder();
  const breaks = utf8Breaks();
  const dispatch: Dispatcher["dispatch"] = (options, handler) => {
    const seen: Dispatcher.DispatchHandler = Object.create(handler) as Dispatcher.DispatchHandler;
    for (const name of PASSED_ON) {
      // biome-ignore lint/complexity/noBannedTypes: four signatures, passed through unchanged
      (seen as Record<string, Function | undefined>)[name] = (handler[name] as Function | undefined)?.bind(handler);
    }
    seen.onResponseData = (controller, chunk) => {
      const text = decoder.decode(chunk, { stream: true });
      if (bytes <= mostBytes) chunks.push({ atUs: clock.nowUs(), text, ...(breaks(chunk) ? { notUtf8: true } : {}) });
      bytes += chunk.length;
      handler.onResponseData?.(controller, chunk);
    };
    return dispatcher.dispatch(options, seen);
  };
  return { dispatch } as Dispatcher;
};
