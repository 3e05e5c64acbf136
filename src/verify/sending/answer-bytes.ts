/** How the bytes of an answer become text: content codings, the pieces of a stream, a strict parser for its frames. */
import * as zlib from "node:zlib";
import type { Dispatcher } from "undici";
import { parseJson } from "../../contract/refusals.ts";

const { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH, ZSTD_e_flush } = zlib.constants;
const gunzip = () => zlib.createGunzip({ flush: Z_SYNC_FLUSH });
type Decoder = ReturnType<typeof gunzip>;
/** Some servers send `deflate` without its zlib wrapper (RFC 9110, section 8.4.1.2); browsers read it with and without. */
const inflate = (first: Uint8Array): Decoder =>
  ((first[0] ?? 0) & 0x0f) === 8
    ? zlib.createInflate({ flush: Z_SYNC_FLUSH })
    : zlib.createInflateRaw({ flush: Z_SYNC_FLUSH });
/** Each decoder flushes at once, so that an event does not wait for the next. */
const DECODERS: ReadonlyMap<string, (first: Uint8Array) => Decoder> = new Map([
  ["gzip", gunzip],
  ["x-gzip", gunzip],
  ["deflate", inflate],
  ["br", () => zlib.createBrotliDecompress({ flush: BROTLI_OPERATION_FLUSH })],
  ["zstd", () => zlib.createZstdDecompress({ flush: ZSTD_e_flush })],
]);

type Headers = Readonly<Record<string, unknown>>;

/** The stated content coding in lower case; empty if there is none. */
export const codingOf = (headers: Headers): string => {
  const name = String(headers["content-encoding"] ?? "").trim();
  return /^identity$/i.test(name) ? "" : name.toLowerCase();
};

export const isDecoded = (headers: Headers): boolean => DECODERS.has(codingOf(headers));

/** The error of an answer whose body is not in the coding that its head states. */
export const NOT_SO_CODED = "not_coded_as_stated";

const decodedInto = (handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler => {
  let make: ((first: Uint8Array) => Decoder) | undefined;
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
        decoder = make(chunk);
        decoder.on("data", (piece: Buffer) => handler.onResponseData?.(controller, piece));
        decoder.on("error", (cause) => {
          const error = Object.assign(new Error(NOT_SO_CODED, { cause }), { code: NOT_SO_CODED });
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

/** Decodes answers, so that an unrequested content coding is reported once and not as twenty defects. */
export const decoding = (dispatcher: Dispatcher): Dispatcher => {
  const dispatch: Dispatcher["dispatch"] = (options, handler) => dispatcher.dispatch(options, decodedInto(handler));
  return { dispatch } as Dispatcher;
};

/** A piece of a body. `notUtf8`: the first invalid byte of the answer is in it. */
export type Chunk = { atUs: number; text: string; notUtf8?: true };

/** Returns a function that adds pieces to `chunks`, up to one that exceeds `mostBytes`. Characters may span pieces. */
export const keepPieces = (chunks: Chunk[], mostBytes: number) => {
  const lenient = new TextDecoder();
  const strict = new TextDecoder("utf-8", { fatal: true });
  let bytes = 0;
  let isUtf8 = true;
  return (piece: Uint8Array, atUs: number): void => {
    const chunk: Chunk = { atUs, text: lenient.decode(piece, { stream: true }) };
    try {
      if (isUtf8) strict.decode(piece, { stream: true });
    } catch {
      isUtf8 = false;
      chunk.notUtf8 = true;
    }
    if (bytes <= mostBytes) chunks.push(chunk);
    bytes += piece.length;
  };
};

/** `event`: `null` without an event line. `inOrder`: that line came before `data`. `atUs`: when the frame ended. */
type SseFrame = { event: string | null; data: string | null; json: unknown; inOrder: boolean; atUs: number };

/** Lines end with LF, CRLF or CR, and the last one perhaps with the text. `atUs`: when the line's end arrived. */
const linesOf = (chunks: readonly Chunk[]): { text: string; atUs: number }[] => {
  const whole = chunks.map(({ text }) => text).join("");
  let [from, pieces, arrived] = [0, 0, 0];
  const lines = Array.from(whole.matchAll(/\r\n|\n|\r|$/g), ({ 0: end, index }) => {
    const text = whole.slice(from, index);
    from = index + end.length;
    while (arrived < from && pieces < chunks.length) arrived += chunks[pieces++]?.text.length ?? 0;
    return { text, atUs: chunks[pieces - 1]?.atUs ?? 0 };
  });
  return lines.at(-1)?.text === "" ? lines.slice(0, -1) : lines;
};

const FIELD = /^(event|data|id|retry)(?::[ ]?(.*))?$/;

export type SseText = ReturnType<typeof readSseText>;

/**
 * Reads frames strictly (item 166), because a client's parser forgives errors. `strange`: lines that are no field, comment
 * or empty line. `unfinished`: no empty line ends the last event, so clients drop it (HTML standard, section 9.2.6).
 */
export const readSseText = (chunks: readonly Chunk[]) => {
  const frames: SseFrame[] = [];
  const strange: string[] = [];
  let event: string | null = null;
  let data: string[] = [];
  let inOrder = true;
  const close = (atUs: number): void => {
    const all = data.length === 0 ? null : data.join("\n");
    frames.push({ event, data: all, json: all === null ? undefined : parseJson(all), inOrder, atUs });
    [event, data, inOrder] = [null, [], true];
  };
  const lines = linesOf(chunks);
  for (const [i, { text: line, atUs }] of lines.entries()) {
    const text = i === 0 ? line.replace(/^\uFEFF/, "") : line;
    const [, name, value = ""] = FIELD.exec(text) ?? [];
    if (name === "event") {
      inOrder &&= data.length === 0;
      event = value;
    } else if (name === "data") data.push(value);
    else if (text !== "" && name === undefined && !text.startsWith(":")) strange.push(text);
    if (text === "" && (event !== null || data.length > 0)) close(atUs);
  }
  const unfinished = data.length > 0;
  if (event !== null || unfinished) close(lines.at(-1)?.atUs ?? 0);
  return { frames, strange, unfinished };
};
