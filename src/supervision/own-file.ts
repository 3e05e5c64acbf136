/**
 * Files that only their owner may have written. What healing reads was left by an earlier process, in a folder that anybody may
 * have made meanwhile: so file and folder have to belong to this user, be writable for nobody else, and be no links. For root
 * as well, who could read everybody's.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, type Stats } from "node:fs";
import { dirname } from "node:path";

const OTHERS_MAY_WRITE = 0o022;
/** A journal of a whole night has some thousand lines. */
const BYTES_MOST = 64 * 1024 * 1024;

const uidHere = (): number | undefined => process.geteuid?.();

/** Why it is not this user's alone, in words that follow its name; `null` where it is. */
export const whyNotOwn = ({ uid, mode }: Pick<Stats, "uid" | "mode">): string | null => {
  const own = uidHere();
  // Without users (Windows) there is nothing to ask.
  if (own === undefined) return null;
  if (uid !== own) return `belongs to the user with the number ${uid}, and this is ${own}`;
  return (mode & OTHERS_MAY_WRITE) === 0 ? null : "may be written by others; `chmod go-w` it if you know who wrote it";
};

/** Opens a file for reading, or for reading and adding to it. Throws a sentence where it is not this user's alone. */
export const openOwnFile = (path: string, what: "read" | "append"): number => {
  const folder = dirname(path);
  const around = lstatSync(folder);
  const refuse = (sentence: string): never => {
    throw new Error(`${sentence}: nothing in it is read`);
  };
  if (around.isSymbolicLink()) refuse(`${folder} is a link; name the folder itself`);
  const why = whyNotOwn(around);
  if (why !== null) refuse(`${folder} ${why}`);
  const how = what === "read" ? constants.O_RDONLY : constants.O_RDWR | constants.O_APPEND;
  let descriptor: number;
  try {
    // Not waiting for the other end of a pipe, should it be one.
    descriptor = openSync(path, how | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ELOOP") return refuse(`${path} is a link`);
    throw error;
  }
  const about = fstatSync(descriptor);
  const wrong = !about.isFile()
    ? "is no file"
    : about.nlink > 1
      ? "has a second name (a hard link)"
      : about.size > BYTES_MOST
        ? `is larger than ${BYTES_MOST} bytes`
        : whyNotOwn(about);
  if (wrong === null) return descriptor;
  closeSync(descriptor);
  return refuse(`${path} ${wrong}`);
};
