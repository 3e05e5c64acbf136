/** Cuts streams into lines at LF only: `node:readline` also cuts at U+2028, U+2029 and CR, which JSON may contain. */
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { parseJson } from "../contract/refusals.ts";

/** Longer than any message of ours. A line without an end would fill the memory. */
const LINE_MAX_CHARS = 64 << 20;

/**
 * Passes on each line. One of more than `maxChars` is passed on shortened as soon as that many have come, so that its
 * reader finds it unreadable.
 */
export const cutLines = (
  onLine: (line: string) => void,
  maxChars: number = LINE_MAX_CHARS,
  shorten: (line: string) => string = (line) => line.slice(0, maxChars),
) => {
  const decoder = new StringDecoder("utf8");
  let held = "";
  let isTooLong = false;
  const give = (line: string): void => onLine(line.length > maxChars ? shorten(line) : line);
  const take = (text: string): void => {
    const parts = text.split("\n");
    parts[0] = held + (parts[0] as string);
    held = parts.pop() as string;
    for (const part of parts) {
      if (!isTooLong) give(part);
      isTooLong = false;
    }
    if (!isTooLong && held.length > maxChars) {
      give(held);
      isTooLong = true;
    }
    if (isTooLong) held = "";
  };
  return {
    push: (chunk: Buffer): void => take(decoder.write(chunk)),
    /** Passes on the text after the last LF, which is half a line if its writer was killed. */
    end: (): void => {
      take(decoder.end());
      if (held !== "") onLine(held);
      held = "";
    },
  };
};

export const readLines = (from: Readable, onLine: (line: string) => void, onEnd?: () => void): void => {
  const cutter = cutLines(onLine);
  from.on("data", cutter.push);
  from.once("close", () => {
    cutter.end();
    onEnd?.();
  });
  // Ignored, because `close` follows.
  from.on("error", () => undefined);
};

/** The JSON object of a line; `null` for any other text. No error quotes the line, because it may contain a key. */
export const messageIn = (line: string): { type: string } | null => {
  const found = parseJson(line) as { type?: unknown } | null | undefined;
  return typeof found?.type === "string" ? (found as { type: string }) : null;
};

export const unreadSentence = (count: number, who: string): string | null =>
  count === 0 ? null : `${count} ${count === 1 ? "line" : "lines"} of ${who} could not be read`;
