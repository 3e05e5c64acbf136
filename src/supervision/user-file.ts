/**
 * Reads a file that the user named, whatever is there: a named pipe that nobody writes to, a device, a folder, fifty
 * megabytes of one name. Each is a clause for a sentence at once, and nothing is waited for.
 */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from "node:fs";

const failed = (code: string): string => (code === "ENOENT" ? "there is no such file" : `reading it failed (${code})`);

/** The message is a clause that says what was found in place of what was expected. */
export class UserFileError extends Error {
  override name = "UserFileError";
  /** The system's code, such as ENOENT; `null` where the file could be opened. */
  readonly code: string | null;
  constructor(found: string, code: string | null = null) {
    super(found);
    this.code = code;
  }
}

const kindOf = (stats: Stats): string => {
  if (stats.isDirectory()) return "a folder";
  if (stats.isFIFO()) return "a named pipe";
  if (stats.isSocket()) return "a socket";
  return "a device";
};

/** A descriptor of a regular file. A pipe without a writer would block an `open` that waits. */
export const openUserFile = (path: string): { descriptor: number; bytes: number } => {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (error) {
    const { code = "unknown error" } = error as NodeJS.ErrnoException;
    throw new UserFileError(failed(code), code);
  }
  const stats = fstatSync(descriptor);
  if (stats.isFile()) return { descriptor, bytes: stats.size };
  closeSync(descriptor);
  throw new UserFileError(`it is ${kindOf(stats)}, not a file`);
};

const CHUNK_BYTES = 1 << 20;

/** The text of a regular file, without a byte order mark. Throws `UserFileError`. */
export const readUserFile = (path: string, maxBytes: number): string => {
  const { descriptor, bytes } = openUserFile(path);
  try {
    const tooLarge = (found: number): UserFileError =>
      new UserFileError(
        `it has ${found === bytes ? found : `more than ${maxBytes}`} bytes; at most ${maxBytes} are read`,
      );
    if (bytes > maxBytes) throw tooLarge(bytes);
    const chunks: Buffer[] = [];
    // Files of /proc state no size, and others grow meanwhile.
    for (let read = 0; ; ) {
      const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, Math.max(bytes - read, 4096)));
      const got = readSync(descriptor, chunk, 0, chunk.length, null);
      if (got === 0) break;
      read += got;
      if (read > maxBytes) throw tooLarge(read);
      chunks.push(chunk.subarray(0, got));
    }
    return Buffer.concat(chunks)
      .toString("utf8")
      .replace(/^\uFEFF/, "");
  } catch (error) {
    if (error instanceof UserFileError) throw error;
    const { code = "unknown error" } = error as NodeJS.ErrnoException;
    throw new UserFileError(failed(code), code);
  } finally {
    closeSync(descriptor);
  }
};

export type JsonBounds = { maxBytes: number; maxDepth: number; maxValues: number; maxTextChars: number };

/** Of what people write by hand or a program of theirs generates: thousands of tenants, and no more. */
export const WRITTEN_BOUNDS: JsonBounds = {
  maxBytes: 16 << 20,
  maxDepth: 64,
  maxValues: 250_000,
  maxTextChars: 1 << 16,
};

/** Of what Floodgate wrote itself. */
export const RECORDED_BOUNDS: JsonBounds = {
  maxBytes: 256 << 20,
  maxDepth: 64,
  maxValues: 20_000_000,
  maxTextChars: 16 << 20,
};

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** What goes beyond a bound, by the brackets, commas and quotes alone: nothing is built for it. `null` where nothing does. */
const beyondBounds = (text: string, { maxDepth, maxValues, maxTextChars }: JsonBounds): string | null => {
  let depth = 0;
  let values = 0;
  let textFrom = -1;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (textFrom >= 0) {
      if (char === BACKSLASH) at++;
      else if (char === QUOTE) {
        if (at - textFrom > maxTextChars) return `a text in it has more than ${maxTextChars} characters`;
        textFrom = -1;
      }
    } else if (char === QUOTE) textFrom = at;
    else if (char === 0x7b || char === 0x5b) {
      depth++;
      values++;
      if (depth > maxDepth) return `it is nested more than ${maxDepth} levels deep`;
    } else if (char === 0x7d || char === 0x5d) depth--;
    else if (char === 0x2c) values++;
    if (values > maxValues) return `it holds more than ${maxValues} values`;
  }
  return null;
};

/** Throws `UserFileError`; a fault of its notation is named by its place alone, since the text around it may be a key. */
export const parseUserJson = (text: string, bounds: JsonBounds = WRITTEN_BOUNDS): unknown => {
  const beyond = beyondBounds(text, bounds);
  if (beyond !== null) throw new UserFileError(beyond);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UserFileError(`it is not JSON: it breaks off ${whereOf((error as Error).message, text)}`);
  }
};

/** The place and, where a bracket closes behind a comma, that the comma is one too many. */
const placed = (position: number, text: string): string => {
  const before = text.slice(0, position);
  const lines = before.split("\n");
  const line = `line ${lines.length}, column ${(lines.at(-1) as string).length + 1}`;
  const isTrailing = /,\s*$/.test(before) && /^[}\]]/.test(text.slice(position));
  return isTrailing ? `at ${line}: the comma before the closing bracket is one too many` : `at ${line}`;
};

/** V8 names a place, or quotes what stands around it: of that the line is found, and nothing is repeated. */
const whereOf = (message: string, text: string): string => {
  const named = /position (\d+)/.exec(message)?.[1];
  if (named !== undefined && text.slice(Number(named)).trim() !== "") return placed(Number(named), text);
  const [, quoted] = /^Unexpected token .*?, (?:\.\.\.)?"(.*)"(?:\.\.\.)? is not valid JSON$/s.exec(message) ?? [];
  const at = quoted === undefined ? -1 : text.indexOf(quoted);
  if (quoted === undefined || at === -1) return "at its end: a bracket or a quotation mark is not closed";
  const line = text.slice(0, at + Math.floor(quoted.length / 2)).split("\n").length;
  return `near line ${line}: JSON has no comments, no trailing commas, and names in double quotes`;
};

export const readUserJson = (path: string, bounds: JsonBounds = WRITTEN_BOUNDS): unknown =>
  parseUserJson(readUserFile(path, bounds.maxBytes), bounds);
