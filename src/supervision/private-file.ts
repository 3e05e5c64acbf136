/**
 * Files and folders that this user alone may read or write: secrets, tokens of our doors on loopback, the journal that healing
 * reads. Links, and files that somebody else made or could have written, are refused, for root too.
 */
import { randomBytes } from "node:crypto";
import { closeSync, constants, fstatSync, lstatSync, openSync, type Stats } from "node:fs";
import { link, lstat, mkdir, open, rename, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseHttpUrl } from "../contract/address.ts";
import { isLoopbackHost } from "../contract/loopback.ts";

/** Whether it belongs to this user. Everything does where the system has no users. */
export const isOwn = ({ uid }: { uid: number }): boolean => process.getuid === undefined || uid === process.getuid();

const isClosedToOthers = ({ mode }: Stats): boolean => process.platform === "win32" || (mode & 0o077) === 0;

/**
 * Writes a new file for its owner only and puts it into place whole; a link at the path is replaced, never followed.
 * `mayReplace: false`: fails with EEXIST where something is there. A folder, a device or a pipe is refused.
 */
export const writePrivateFile = async (
  path: string,
  text: string,
  { mayReplace = true }: { mayReplace?: boolean } = {},
): Promise<void> => {
  const there = mayReplace ? await stat(path).catch(() => null) : null;
  if (there !== null && !there.isFile()) {
    throw Object.assign(new Error(`${path} is there and is no regular file`), { code: "ENOTREG" });
  }
  const draft = `${path}.${randomBytes(6).toString("hex")}.part`;
  try {
    const file = await open(draft, "wx", 0o600);
    const written = file.writeFile(text).then(() => file.sync());
    await written.finally(() => file.close());
    // A link to the same file fails where the name is taken; renaming would replace it.
    await (mayReplace ? rename(draft, path) : link(draft, path));
  } finally {
    await rm(draft, { force: true });
  }
};

/** The text of a file that only this user can have written or read; `null` for anything else. */
export const readPrivateFile = async (path: string, charsMost: number): Promise<string | null> => {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const found = await file.stat();
    if (!found.isFile() || !isOwn(found) || !isClosedToOthers(found) || found.size > charsMost) return null;
    return await file.readFile("utf8");
  } catch {
    return null;
  }
};

const isPrivateFolder = async (path: string): Promise<boolean> => {
  const found = await lstat(path).catch(() => null);
  return found?.isDirectory() === true && isOwn(found) && isClosedToOthers(found);
};

/** A token of a door that this project opens on loopback (a control plane, the watchdog), where the user gave none. */
export const makeToken = (): string => randomBytes(32).toString("hex");

const TOKEN_CHARS_MOST = 1_024;

const doors = (): string => join(tmpdir(), `floodgate-doors-${process.getuid?.() ?? "user"}`);
const tokenFile = (port: string): string => join(doors(), `${port}.token`);

/** Writes a door's token into a file named after its port, before its address is published. */
export const handOverToken = async (
  url: string,
  token: string,
): Promise<{ path: string; remove: () => Promise<void> }> => {
  await mkdir(doors(), { recursive: true, mode: 0o700 });
  if (!(await isPrivateFolder(doors()))) {
    throw new Error(
      `expected ${doors()} to be a folder of yours that nobody else can enter; remove it, or set TMPDIR to a folder of your own`,
    );
  }
  const path = tokenFile(parseHttpUrl(url).port);
  await writePrivateFile(path, `${token}\n`);
  return { path, remove: () => rm(path, { force: true }) };
};

/** What the door behind a URL handed over on this machine; `null` where it handed over nothing, or stands elsewhere. */
export const tokenOfDoor = async (url: string): Promise<string | null> => {
  const { host, port } = parseHttpUrl(url);
  if (!isLoopbackHost(host) || !(await isPrivateFolder(doors()))) return null;
  return (await readPrivateFile(tokenFile(port), TOKEN_CHARS_MOST))?.trim() || null;
};

const OTHERS_MAY_WRITE = 0o022;
/** A journal of a whole night has some thousand lines. */
const BYTES_MOST = 64 * 1024 * 1024;

/** Why others may have written it, in words that follow its name; `null` where this user alone may. */
export const whyNotOwn = ({ uid, mode }: Pick<Stats, "uid" | "mode">): string | null => {
  const own = process.geteuid?.();
  if (own === undefined) return null;
  if (uid !== own) return `belongs to the user with the number ${uid}, and this is ${own}`;
  return (mode & OTHERS_MAY_WRITE) === 0 ? null : "may be written by others; `chmod go-w` it if you know who wrote it";
};

const wrongWithFile = (about: Stats): string | null => {
  if (!about.isFile()) return "is no file";
  if (about.nlink > 1) return "has a second name (a hard link)";
  return about.size > BYTES_MOST ? `is larger than ${BYTES_MOST} bytes` : whyNotOwn(about);
};

/** File and folder must belong to this user, be writable for nobody else, and be no links. */
export const openOwnFile = (path: string, what: "read" | "append"): number => {
  const folder = dirname(path);
  const refuse = (sentence: string): never => {
    throw new Error(`${sentence}: nothing in it is read`);
  };
  const around = lstatSync(folder);
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
  const wrong = wrongWithFile(fstatSync(descriptor));
  if (wrong === null) return descriptor;
  closeSync(descriptor);
  return refuse(`${path} ${wrong}`);
};
