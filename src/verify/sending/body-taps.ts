/** Reads coded answers as plain ones, so that one unasked coding is not reported as twenty defects; notes pieces of streams. */
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
  constants as zlibConstants,
} from "node:zlib";
import type { Dispatcher } from "undici";
import type { RunClock } from "../../client/clock.ts";

const { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH, ZSTD_e_flush } = zlibConstants;
/** What there is to read is read at once: an event must not wait for the next. */
const DECODERS = {
  gzip: () => createGunzip({ flush: Z_SYNC_FLUSH }),
  "x-gzip": () => createGunzip({ flush: Z_SYNC_FLUSH }),
  deflate: () => createInflate({ flush: Z_SYNC_FLUSH }),
  br: () => createBrotliDecompress({ flush: BROTLI_OPERATION_FLUSH }),
  zstd: () => createZstdDecompress({ flush: ZSTD_e_flush }),
} as const;

/** The coding of a body, in lower case; empty where there is none. */
export const codingOf = (headers: Readonly<Record<string, unknown>>): string => {
  const name = String(headers["content-encoding"] ?? "")
    .trim()
    .toLowerCase();
  return name === "identity" ? "" : name;
};

/** Whether a body was read as a plain one. */
export const isDecoded = (headers: Readonly<Record<string, unknown>>): boolean => codingOf(headers) in DECODERS;

/** Gives its handler the plain body of a coded one. A coding that nobody knows is left as it is. */
const decoded = (handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler => {
  let make: (() => ReturnType<typeof createGunzip>) | undefined;
  let decoder: ReturnType<typeof createGunzip> | null = null;
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

/** Sends as the other does; what comes back is plain. */
export const decoding = (dispatcher: Dispatcher): Dispatcher => {
  const dispatch: Dispatcher["dispatch"] = (options, handler) => dispatcher.dispatch(options, decoded(handler));
  return { dispatch } as Dispatcher;
};

/** One piece of a body as it came over the wire. `notUtf8`: the first byte of the answer that is no UTF-8 came with it. */
export type Chunk = { atUs: number; text: string; notUtf8?: true };

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
