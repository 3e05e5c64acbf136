/**
 * Files that hold a secret: new, for their owner only, and put into place whole. What stands at the path is replaced and
 * never written through, so that a link which somebody planted there leads nowhere.
 */
import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { link, lstat, open, rename, rm, stat } from "node:fs/promises";

/** With the code of the file system, as its own errors have. */
const refused = (code: string, message: string): NodeJS.ErrnoException => Object.assign(new Error(message), { code });

/** A folder, a device or a pipe is no place for a file, also behind a link: the link would be gone. */
const refuseOtherThanFile = async (path: string): Promise<void> => {
  const there = await stat(path).catch(() => null);
  if (there !== null && !there.isFile()) throw refused("ENOTREG", `${path} is there and is no regular file`);
};

/** `mayReplace: false`: fails with EEXIST where something is there. */
export const writePrivateFile = async (
  path: string,
  text: string,
  { mayReplace = true }: { mayReplace?: boolean } = {},
): Promise<void> => {
  if (mayReplace) await refuseOtherThanFile(path);
  const draft = `${path}.${randomBytes(6).toString("hex")}.part`;
  try {
    const file = await open(draft, "wx", 0o600);
    try {
      await file.writeFile(text);
    } finally {
      await file.close();
    }
    // A link to the same file fails where the name is taken; renaming would replace it.
    if (mayReplace) await rename(draft, path);
    else await link(draft, path);
  } finally {
    await rm(draft, { force: true });
  }
};

/** Whether it belongs to this user. Everything does where the system has no users. */
export const isOwn = ({ uid }: { uid: number }): boolean => process.getuid === undefined || uid === process.getuid();

/** The text of a file that only this user can have written or read; `null` for anything else. */
export const readPrivateFile = async (path: string, charsMost: number): Promise<string | null> => {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const found = await file.stat();
      const isShared = process.platform !== "win32" && (found.mode & 0o077) !== 0;
      if (!found.isFile() || !isOwn(found) || isShared || found.size > charsMost) return null;
      return await file.readFile("utf8");
    } finally {
      await file.close();
    }
  } catch {
    return null;
  }
};

/** Whether a folder is this user's own and closed to others; a link to one is none. */
export const isPrivateFolder = async (path: string): Promise<boolean> => {
  const found = await lstat(path).catch(() => null);
  if (found === null || !found.isDirectory() || !isOwn(found)) return false;
  return process.platform === "win32" || (found.mode & 0o077) === 0;
};
