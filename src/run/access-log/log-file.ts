/** The lines of a log file, in constant memory, whatever stands in it: plain or compressed by gzip, with lines of any length. */
import { type BigIntStats, createReadStream } from "node:fs";
import { open, stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";

/** A file that cannot be read as a log: a sentence that follows its path. */
export class LogFileError extends Error {}

const PIECE_BYTES = 256 * 1024;
/** What is longer is cut: a time stands at the beginning of a line, and a JSON line of that length is none of a call. */
const LINE_MAX_CHARS = 1024 * 1024;
/** Of the beginning, to see what it is. */
const HEAD_BYTES = 4096;

const PACKED: readonly (readonly [magic: string, how: string])[] = [
  ["\x28\xb5\x2f\xfd", "zstd"],
  ["BZh", "bzip2"],
  ["\xfd7zXZ", "xz"],
  ["PK\x03\x04", "zip"],
];

/** What keeps the beginning of a file from being text; `null` where nothing does. */
const noText = (head: string): string | null => {
  if (head.startsWith("\xff\xfe") || head.startsWith("\xfe\xff")) {
    return "is UTF-16; expected UTF-8. Convert it: iconv -f UTF-16 -t UTF-8";
  }
  const packed = PACKED.find(([magic]) => head.startsWith(magic));
  if (packed !== undefined) return `is compressed by ${packed[1]}; expected text or gzip. Unpack it first`;
  return head.includes("\0") ? "is no text: there is a zero byte near its beginning" : null;
};

const KINDS: readonly (readonly [is: (found: BigIntStats) => boolean, what: string])[] = [
  [(found) => found.isDirectory(), "a folder"],
  [(found) => found.isFIFO(), "a pipe"],
  [(found) => found.isSocket(), "a socket"],
  [(found) => !found.isFile(), "a device"],
];

const ERRORS: Readonly<Record<string, string>> = {
  ENOENT: "does not exist",
  ENOTDIR: "does not exist",
  EACCES: "may not be read by this user",
  EPERM: "may not be read by this user",
};

const asLogError = (error: NodeJS.ErrnoException): LogFileError => {
  if (error instanceof LogFileError) return error;
  if (error.code === "Z_BUF_ERROR") return new LogFileError("is cut short: its gzip data end before their end");
  if (error.code?.startsWith("Z_") === true) return new LogFileError(`has gzip data that are damaged (${error.code})`);
  return new LogFileError(ERRORS[error.code ?? ""] ?? `cannot be read (${error.code ?? error.message})`);
};

const headOf = async (path: string): Promise<string> => {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.toString("latin1", 0, bytesRead);
  } finally {
    await file.close();
  }
};

const openText = (path: string, isGzip: boolean): Readable => {
  const source = createReadStream(path, { highWaterMark: PIECE_BYTES });
  if (!isGzip) return source;
  const unpacked = createGunzip({ chunkSize: PIECE_BYTES });
  source.on("error", (error) => unpacked.destroy(error));
  unpacked.on("close", () => source.destroy());
  return source.pipe(unpacked);
};

/**
 * Gives each line to `onLine`, one character a byte: moments are ASCII, and whoever shows a line decodes it (`lineText`). Ends
 * early where `onLine` returns false. Throws `LogFileError`.
 */
export const readLogLines = async (path: string, onLine: (line: string) => boolean): Promise<void> => {
  try {
    const found = await stat(path, { bigint: true });
    const kind = KINDS.find(([is]) => is(found));
    if (kind !== undefined) throw new LogFileError(`is ${kind[1]}, not a file`);
    const head = await headOf(path);
    if (head === "") throw new LogFileError("is empty");
    const isGzip = head.startsWith("\x1f\x8b");
    const trouble = isGzip ? null : noText(head);
    if (trouble !== null) throw new LogFileError(trouble);
    let held = "";
    let isFirst = true;
    /** The line is too long, its beginning was given, and what follows up to its end is dropped. */
    let isDropping = false;
    const give = (line: string): boolean => onLine(line.length > LINE_MAX_CHARS ? line.slice(0, LINE_MAX_CHARS) : line);
    for await (const piece of openText(path, isGzip) as AsyncIterable<Buffer>) {
      let text = piece.toString("latin1");
      if (isFirst) {
        const inside = isGzip ? noText(text.slice(0, HEAD_BYTES)) : null;
        if (inside !== null) throw new LogFileError(`holds, unpacked, no log: it ${inside}`);
        text = text.replace(/^\xef\xbb\xbf/, "");
        isFirst = false;
      }
      const lines = text.split("\n");
      lines[0] = held + (lines[0] as string);
      held = lines.pop() as string;
      for (const line of lines) {
        if (isDropping) isDropping = false;
        else if (!give(line)) return;
      }
      if (isDropping) held = "";
      else if (held.length > LINE_MAX_CHARS) {
        if (!give(held)) return;
        held = "";
        isDropping = true;
      }
    }
    if (held !== "" && !isDropping) give(held);
  } catch (error) {
    throw asLogError(error as NodeJS.ErrnoException);
  }
};

/** A line as text, for people. */
export const lineText = (line: string): string => Buffer.from(line, "latin1").toString("utf8");
