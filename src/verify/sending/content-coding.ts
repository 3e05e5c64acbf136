/** Decodes answers, so that an unrequested content coding is reported once and not as twenty defects. */
import * as zlib from "node:zlib";
import type { Dispatcher } from "undici";

const { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH, ZSTD_e_flush } = zlib.constants;
const gunzip = () => zlib.createGunzip({ flush: Z_SYNC_FLUSH });
type Decoder = ReturnType<typeof gunzip>;
/** Each decoder flushes at once, so that an event does not wait for the next. */
const DECODERS: ReadonlyMap<string, () => Decoder> = new Map([
  ["gzip", gunzip],
  ["x-gzip", gunzip],
  ["deflate", () => zlib.createInflate({ flush: Z_SYNC_FLUSH })],
  ["br", () => zlib.createBrotliDecompress({ flush: BROTLI_OPERATION_FLUSH })],
  ["zstd", () => zlib.createZstdDecompress({ flush: ZSTD_e_flush })],
]);

type Headers = Readonly<Record<string, unknown>>;

export const codingOf = (headers: Headers): string => {
  const name = String(headers["content-encoding"] ?? "");
  return name
    .trim()
    .toLowerCase()
    .replace(/^identity$/, "");
};

export const isDecoded = (headers: Headers): boolean => DECODERS.has(codingOf(headers));

const decoded = (handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler => {
  let make: (() => Decoder) | undefined;
  let decoder: Decoder | null = null;
  let failed = false;
  return {
    onRequestStart: (...started) => handler.onRequestStart?.(...started),
    onRequestUpgrade: (...upgraded) => handler.onRequestUpgrade?.(...upgraded),
    onResponseStart: (controller, status, headers, message) => {
      make = DECODERS.get(codingOf(headers));
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
};

export const decoding = (dispatcher: Dispatcher): Dispatcher => {
  const dispatch: Dispatcher["dispatch"] = (options, handler) => dispatcher.dispatch(options, decoded(handler));
  return { dispatch } as Dispatcher;
};
