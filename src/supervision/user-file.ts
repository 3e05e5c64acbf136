/** Reads and writes files and makes folders that the user named. A pipe, a device, a folder or a huge file is refused at once. */
import { closeSync, constants, fstatSync, mkdirSync, openSync, readSync, type Stats, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { noSuch } from "../contract/nearest.ts";
import { writePrivateFile } from "./private-file.ts";

/** A mistake of the user, which ends a command with the exit code of usage; the message says what to do. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** Finds an item by its name; throws `UsageError` with the nearest name, or with where all names are listed. */
export const called = <T extends { name: string }>(what: string, name: string, all: Iterable<T>, listing: string) => {
  const known = new Map([...all].map((one) => [one.name, one]));
  const found = known.get(name);
  if (found !== undefined) return found;
  throw new UsageError(noSuch(what, name, [...known.keys()], listing));
};

/**
 * The message is a clause that says what was found in place of what was expected. `code`: the system's, such as ENOENT;
 * `null` if no system call failed.
 */
export class UserFileError extends Error {
  override name = "UserFileError";
  readonly code: string | null;
  constructor(found: string, code: string | null = null) {
    super(found);
    this.code = code;
  }
}

const failed = (error: unknown): UserFileError => {
  const { code = "unknown error" } = error as NodeJS.ErrnoException;
  return new UserFileError(code === "ENOENT" ? "there is no such file" : `reading it failed (${code})`, code);
};

const kindOf = (stats: Stats): string => {
  if (stats.isDirectory()) return "a folder";
  if (stats.isFIFO()) return "a named pipe";
  return stats.isSocket() ? "a socket" : "a device";
};

/** Opens a regular file. O_NONBLOCK, because opening a pipe without a writer would block. */
export const openUserFile = (path: string): { descriptor: number; bytes: number } => {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (error) {
    throw failed(error);
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
  const tooLarge = (found: string) => new UserFileError(`it has ${found} bytes; at most ${maxBytes} are read`);
  try {
    if (bytes > maxBytes) throw tooLarge(`${bytes}`);
    const chunks: Buffer[] = [];
    // The stated size is not relied on: files of /proc state none, and a file may grow while it is read.
    for (let read = 0; ; ) {
      const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, Math.max(bytes - read, 4096)));
      const got = readSync(descriptor, chunk, 0, chunk.length, null);
      if (got === 0) break;
      read += got;
      if (read > maxBytes) throw tooLarge(`more than ${maxBytes}`);
      chunks.push(chunk.subarray(0, got));
    }
    const all = Buffer.concat(chunks);
    // Windows PowerShell writes this by `>`.
    if (all.length > 1 && [0xfffe, 0xfeff].includes(all.readUInt16BE(0)))
      throw new UserFileError("it is UTF-16; save it as UTF-8");
    return all.toString("utf8").replace(/^\uFEFF/, "");
  } catch (error) {
    throw error instanceof UserFileError ? error : failed(error);
  } finally {
    closeSync(descriptor);
  }
};

/** Bounds for files that a user writes or generates, such as a target file with thousands of tenants. */
export const WRITTEN_BOUNDS = { maxBytes: 16 << 20, maxDepth: 64, maxValues: 250_000, maxTextChars: 1 << 16 };

type JsonBounds = typeof WRITTEN_BOUNDS;

export const RECORDED_BOUNDS: JsonBounds = {
  ...WRITTEN_BOUNDS,
  maxBytes: 256 << 20,
  maxValues: 20_000_000,
  maxTextChars: 16 << 20,
};

/** Says which bound a JSON text exceeds; `null` if none. Needs no memory: counts only brackets, commas and quotes. */
const beyondBounds = (text: string, { maxDepth, maxValues, maxTextChars }: JsonBounds): string | null => {
  let depth = 0;
  let values = 0;
  let textFrom = -1;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (textFrom >= 0) {
      if (char === "\\") at++;
      else if (char === '"') {
        if (at - textFrom > maxTextChars) return `a text in it has more than ${maxTextChars} characters`;
        textFrom = -1;
      }
    } else if (char === '"') textFrom = at;
    else if (char === "{" || char === "[") {
      depth++;
      values++;
      if (depth > maxDepth) return `it is nested more than ${maxDepth} levels deep`;
    } else if (char === "}" || char === "]") depth--;
    else if (char === ",") values++;
    if (values > maxValues) return `it holds more than ${maxValues} values`;
  }
  return null;
};

/** Throws `UserFileError`. A syntax error is reported by its place only, because the text around it may be a key. */
export const parseUserJson = (text: string, bounds: JsonBounds = WRITTEN_BOUNDS): unknown => {
  if (text.trim() === "") throw new UserFileError("it is empty");
  const beyond = beyondBounds(text, bounds);
  if (beyond !== null) throw new UserFileError(beyond);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UserFileError(`it is not JSON: it breaks off ${whereOf((error as Error).message, text)}`);
  }
};

const JSON_HAS = "JSON has no comments, no trailing commas, and names in double quotes";

const placed = (position: number, text: string): string => {
  const before = text.slice(0, position);
  const lines = before.split("\n");
  const line = `line ${lines.length}, column ${(lines.at(-1) as string).length + 1}`;
  const isTrailing = /,\s*$/.test(before) && /^[}\]]/.test(text.slice(position));
  return `at ${line}: ${isTrailing ? "the comma before the closing bracket is one too many" : JSON_HAS}`;
};

/** V8's message gives a position, or quotes the text around it, which is used to find the line and not repeated. */
const whereOf = (message: string, text: string): string => {
  const named = /position (\d+)/.exec(message)?.[1];
  if (named !== undefined && text.slice(Number(named)).trim() !== "") return placed(Number(named), text);
  const [, quoted] = /^Unexpected token .*?, (?:\.\.\.)?"(.*)"(?:\.\.\.)? is not valid JSON$/s.exec(message) ?? [];
  const at = quoted === undefined ? -1 : text.indexOf(quoted);
  if (quoted === undefined || at === -1) return "at its end: a bracket or a quotation mark is not closed";
  const line = text.slice(0, at + Math.floor(quoted.length / 2)).split("\n").length;
  return `near line ${line}: ${JSON_HAS}`;
};

export const readUserJson = (path: string, bounds: JsonBounds = WRITTEN_BOUNDS): unknown =>
  parseUserJson(readUserFile(path, bounds.maxBytes), bounds);

/** Makes a folder and its parents. Throws the system's error. Node's recursive `mkdir` never returns below /proc. */
export const makeFolders = (path: string, mode?: number): void => {
  const missing: string[] = [];
  for (let at = resolve(path); statSync(at, { throwIfNoEntry: false }) === undefined; at = dirname(at)) {
    missing.push(at);
    if (dirname(at) === at) break;
  }
  for (const folder of missing.reverse()) {
    try {
      mkdirSync(folder, { mode });
    } catch (error) {
      // Another process may have made the folder meanwhile.
      const isThere = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
      if ((error as NodeJS.ErrnoException).code !== "EEXIST" || !isThere) throw error;
    }
  }
  if (!statSync(path).isDirectory()) {
    throw Object.assign(new Error(`ENOTDIR: not a folder, '${path}'`), { code: "ENOTDIR" });
  }
};

const NOT_ALLOWED = "this user may not do that there";
const NO_KEEPING = "nothing can be kept there";

/** Errors of the file system that another path would avoid, explained to the user who named the path. */
const MEANS: Readonly<Record<string, string>> = {
  EACCES: NOT_ALLOWED,
  EPERM: NOT_ALLOWED,
  EROFS: "the file system there is read-only",
  ENOENT: "there is no such place",
  ENOTDIR: "a part of the path is a file, not a folder",
  EISDIR: "it is a folder",
  EEXIST: "something of that name is there already",
  ENAMETOOLONG: "the name is too long",
  ELOOP: "its links lead in a circle",
  ENXIO: NO_KEEPING,
  EINVAL: "that is no place for it",
  ENOTSUP: NO_KEEPING,
  ENODEV: NO_KEEPING,
};

const NO_ROOM: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full",
  EDQUOT: "the quota of this user is used up",
  EFBIG: "a file may not grow any further here (ulimit -f)",
  EMFILE: "this process has as many files open as it may (ulimit -n)",
  ENFILE: "this machine has as many files open as it may",
  ENOMEM: "the memory is full",
  EIO: "the disk reports an error",
};

/** `sentence`: a clause such as `the disk is full (ENOSPC)`. `isLackOfRoom`: the path itself would do. */
export const fileProblem = (error: unknown) => {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  if (code === undefined) return null;
  const means = MEANS[code] ?? NO_ROOM[code];
  return means === undefined ? null : { code, sentence: `${means} (${code})`, isLackOfRoom: code in NO_ROOM };
};

/** `what`: the option and the path that the user gave it. */
export const notWritten = (what: string, error: NodeJS.ErrnoException): UsageError => {
  const sentence = fileProblem(error)?.sentence ?? error.code;
  return new UsageError(`${what}: expected a file that can be written, but ${sentence}; name another place`);
};

const neverOver = (path: string): UsageError =>
  new UsageError(`${path} is there already and is not overwritten: name another file with --out, or move it`);

/** Writes a new file, readable by its owner only, since it may hold keys. Throws `UsageError`. `given`: as the user named it. */
export const writeNew = (path: string, text: string, given = path): Promise<void> =>
  writePrivateFile(path, text, { mayReplace: false }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "EEXIST") throw neverOver(given);
    throw notWritten(`--out ${given}`, error);
  });

export const writeNewJson = (path: string, value: unknown, given = path): Promise<void> =>
  writeNew(path, `${JSON.stringify(value, null, 2)}\n`, given);

/** Throws `UsageError` if `writeNew` would, before anything is sent: it writes an empty file there and removes it. */
export const checkNewFile = async (path: string, given = path): Promise<void> => {
  await writeNew(path, "", given);
  await rm(path);
};

/** Runs `act`, which writes to a place that the user can name. Throws `UsageError` if the place is unusable. */
export const atPlace = <T>(what: string, act: () => T, option = ""): T => {
  try {
    return act();
  } catch (error) {
    const problem = fileProblem(error);
    if (problem === null) throw error;
    const sentence = `${what}: ${problem.sentence}`;
    const elsewhere = `name another place${option}`;
    if (problem.isLackOfRoom) throw new Error(`${sentence}; make room, or ${elsewhere}`);
    throw new UsageError(`${sentence}; ${elsewhere}`);
  }
};
