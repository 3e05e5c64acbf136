/** The pieces of a stream, and a strict parser for its frames (item 166); a client's parser forgives errors. */
import { parseJson } from "../../contract/envelopes.ts";

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

/** Lines end with LF, CRLF or CR. `atUs`: when the line's end arrived. Added empty lines close the last frame. */
const linesOf = (chunks: readonly Chunk[]): { text: string; atUs: number }[] => {
  const whole = [...chunks.map(({ text }) => text), "\n\n"].join("");
  let [from, pieces, arrived] = [0, 0, 0];
  return Array.from(whole.matchAll(/\r\n|\n|\r/g), ({ 0: end, index }) => {
    const text = whole.slice(from, index);
    from = index + end.length;
    while (arrived < from && pieces < chunks.length) arrived += chunks[pieces++]?.text.length ?? 0;
    return { text, atUs: chunks[pieces - 1]?.atUs ?? 0 };
  });
};

const FIELD = /^(event|data|id|retry)(?::[ ]?(.*))?$/;

export type SseText = ReturnType<typeof readSseText>;

/** `strange`: lines that are no field, comment or empty line. */
export const readSseText = (chunks: readonly Chunk[]) => {
  const frames: SseFrame[] = [];
  const strange: string[] = [];
  let event: string | null = null;
  let data: string[] = [];
  let inOrder = true;
  for (const [i, { text: line, atUs }] of linesOf(chunks).entries()) {
    const text = i === 0 ? line.replace(/^\uFEFF/, "") : line;
    const [, name, value = ""] = FIELD.exec(text) ?? [];
    if (name === "event") {
      inOrder &&= data.length === 0;
      event = value;
    } else if (name === "data") data.push(value);
    else if (text !== "" && name === undefined && !text.startsWith(":")) strange.push(text);
    if (text !== "" || (event === null && data.length === 0)) continue;
    const all = data.length === 0 ? null : data.join("\n");
    frames.push({ event, data: all, json: all === null ? undefined : parseJson(all), inOrder, atUs });
    [event, data, inOrder] = [null, [], true];
  }
  return { frames, strange };
};
