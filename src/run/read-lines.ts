/** Reads files of lines block by block: the history of a soak is larger than a text may be. */
import { closeSync, readSync } from "node:fs";
import { openUserFile, UserFileError } from "../supervision/user-file.ts";

const BLOCK_BYTES = 1 << 20;
const LINE_END = 10;

/** Whole lines, many at a time, between two places of the file in bytes; last what stands behind the last line end. */
export function* textBlocks(path: string, from = 0, to = Number.POSITIVE_INFINITY): Generator<string> {
  const file = openUserFile(path).descriptor;
  try {
    const block = Buffer.alloc(BLOCK_BYTES);
    const held: Buffer[] = [];
    for (let at = from; ; ) {
      const bytes = readSync(file, block, 0, Math.min(BLOCK_BYTES, to - at), at);
      if (bytes === 0) break;
      at += bytes;
      const end = block.lastIndexOf(LINE_END, bytes - 1) + 1;
      if (end > 0) yield Buffer.concat([...held.splice(0), block.subarray(0, end)]).toString("utf8");
      held.push(Buffer.from(block.subarray(end, bytes)));
    }
    const rest = Buffer.concat(held).toString("utf8");
    if (rest !== "") yield rest;
  } finally {
    closeSync(file);
  }
}

/** Its error quotes nothing of the line, which may hold a key. */
const jsonOf = (line: string, path: string): unknown => {
  try {
    return JSON.parse(line);
  } catch {
    throw new UserFileError(`${path}: a line of it is not JSON`);
  }
};

/** Each line as JSON. What was killed may have left half of a last line, which is left out. */
export function* jsonLines<T>(path: string, from?: number, to?: number): Generator<T> {
  for (const text of textBlocks(path, from, to)) {
    for (const line of text.slice(0, text.lastIndexOf("\n") + 1).split("\n")) {
      if (line !== "") yield jsonOf(line, path) as T;
    }
  }
}
