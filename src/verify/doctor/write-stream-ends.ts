/**
 * Writes `stream_end` into a target file that does not state it, and changes nothing else of it: not its order, its comments or
 * its spaces. The file is replaced whole, so that nobody ever reads half of one; one that is a link is left alone.
 */
import { chmod, lstat, readFile } from "node:fs/promises";
import type { StatedStreamEnds } from "../../contract/streams.ts";
import { writePrivateFile } from "../../supervision/private-file.ts";

/** The text with the field behind its last member; `null` for a text that is no object with members, or has the field. */
export const withStreamEnds = (text: string, ends: StatedStreamEnds): string | null => {
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  if ("stream_end" in value || Object.keys(value).length === 0) return null;
  const members = text.slice(0, text.lastIndexOf("}")).trimEnd();
  const indent = /\n([ \t]+)"/.exec(text)?.[1];
  const names = Object.entries(ends).map(([kind, name]) => `${JSON.stringify(kind)}: ${JSON.stringify(name)}`);
  const separator = indent === undefined ? ", " : `,\n${indent}`;
  return `${members}${separator}"stream_end": { ${names.join(", ")} }${text.slice(members.length)}`;
};

/** Whether it was written. */
export const writeStreamEnds = async (file: string, ends: StatedStreamEnds): Promise<boolean> => {
  try {
    const there = await lstat(file);
    const text = there.isFile() ? withStreamEnds(await readFile(file, "utf8"), ends) : null;
    if (text === null) return false;
    await writePrivateFile(file, text);
    await chmod(file, there.mode & 0o777);
    return true;
  } catch {
    return false;
  }
};
