/** Decodes answers, so that an unrequested content coding is reported once and not as twenty defects; and records the pieces of streams. */
import * as zlib from "node:zlib";
import type { Dispatcher } from "undici";
import type { RunClock } from "../../client/clock.ts";

const { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH, ZSTD_e_flush } = zlib.constants;
/** Flushed at once, so that an event does not wait for the next. */
const DECODERS = {
  gzip: () => zlib.createGunzip({ flush: Z_SYNC_FLUSH }),
  "x-gzip": () => zlib.createGunzip({ flush: Z_SYNC_FLUSH }),
  deflate: () => zlib.createInflate({ flush: Z_SYNC_FLUSH }),
  br: () => zlib.createBrotliDecompress({ flush: BROTLI_OPERATION_FLUSH }),
  zstd: () => zlib.createZstdDecompress({ flush: ZSTD_e_flush }),
} as const;

export const codingOf = (headers: Readonly<Record<string, unknown>>): string => {
  const name = String(headers["content-encoding"] ?? "")
    .trim()
    .toLowerCase();
  return name === "identity" ? "" : name;
};

export const isDecoded = (headers: Readonly<Record<string, unknown>>): boolean => codingOf(headers) in DECODERS;

const decoded = (handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler => {
  let make: (() => ReturnType<typeof zlib.createGunzip>) | undefined;
  let decoder: ReturnType<typeof zlib.createGunzip> | null = null;
  let failed = false;
  const plain: Dispatcher.DispatchHandler = {
    onRequestStart: (controller, context) => handler.onRequestStart?.(controller, context),
    onRequestUpgrade: (controller, status, headers, socket) =>
      handler.onRequestUpgrade?.(controller, status, headers, socket),
    onResponseStart: (controller, status, headers, message) => {
      make = (DECODERS as Record<string, typeof make>)[codingOf(headers)];
      handler.onResponseStart?.(controller, status, headers, message);
    },
    onResponseData: (controller, chunk) => {
      if (make === undefined) return handler.onResponseData?.(controller, chunk);
      if (decoder === null) {
        decoder = make();
        decoder.on("data", (piece: Buffer) => handler.onResponseData?.(controller, piece));
        decoder.on("error", (error) => {
          handler.onResponseError?.(controller, error);
          failed = true;
          controller.abort(error);
        });
      }
      decoder.write(chunk);
    },
    onResponseEnd: (controller, trailers) => {
      if (decoder === null) return handler.onResponseEnd?.(controller, trailers);
      decoder.on("end", () => handler.onResponseEnd?.(controller, trailers));
      decoder.end();
    },
    onResponseError: (controller, error) => {
      decoder?.destroy();
      if (!failed) handler.onResponseError?.(controller, error);
    },
  };
  return plain;
};

export const decoding = (dispatcher: Dispatcher): Dispatcher => {
  const dispatch: Dispatcher["dispatch"] = (options, handler) => dispatcher.dispatch(options, decoded(handler));
  return { dispatch } as Dispatcher;
};

/** A piece of a body. `notUtf8`: the first invalid byte of the answer is in it. */
export type Chunk = { atUs: number; text: string; notUtf8?: true };

/** Returns a check that is `true` once, at the first piece with invalid UTF-8. Characters may span pieces. */
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

/** Records the pieces in `chunks`, up to the one that exceeds `mostBytes`. */
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
