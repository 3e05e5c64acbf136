/** Lines end at LF alone: `node:readline` also cuts at U+2028, U+2029 and CR, which JSON texts may hold. */
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";

/** No message of ours is as long; a line without an end would fill the memory. */
const LINE_MAX_CHARS = 64 << 20;

export type LineCutter = ReturnType<typeof cutLines>;

/** A longer line is handed on shortened, so that its reader finds it unreadable. */
export const cutLines = (
  onLine: (line: string) => void,
  maxChars: number = LINE_MAX_CHARS,
  shorten: (line: string) => string = (line) => line.slice(0, maxChars),
) => {
  const decoder = new StringDecoder("utf8");
  let held = "";
  let isTooLong = false;
  const take = (text: string): void => {
    const parts = text.split("\n");
    parts[0] = held + (parts[0] as string);
    held = parts.pop() as string;
    for (const part of parts) {
      if (!isTooLong) onLine(part);
      isTooLong = false;
    }
    if (isTooLong) held = "";
    else if (held.length > maxChars) {
      onLine(shorten(held));
      held = "";
      isTooLong = true;
    }
  };
  return {
    push: (chunk: Buffer): void => take(decoder.write(chunk)),
    /** What stands behind the last LF is a line as well: half of one, where its writer was killed. */
    end: (): void => {
      take(decoder.end());
      if (held !== "" && !isTooLong) onLine(held);
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
  // What broke the pipe shows at its other end.
  from.on("error", () => undefined);
};

/** The JSON object of a line; `null` for whatever else stands there. Nothing of it is repeated: it may hold a key. */
export const messageIn = (line: string): { type: string } | null => {
  try {
    const found = JSON.parse(line) as { type?: unknown } | null;
    return typeof found?.type === "string" ? (found as { type: string }) : null;
  } catch {
    return null;
  }
};

export const unreadSentence = (count: number, who: string): string | null =>
  count === 0 ? null : `${count} ${count === 1 ? "line" : "lines"} of ${who} could not be read`;
