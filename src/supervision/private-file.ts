/**
 * Files and folders that only this user may read or write: secrets, tokens of our services on loopback, the journal.
 * Links, and files that another user made or could have written, are refused, even if this user is root.
 */
import { randomBytes } from "node:crypto";
import { closeSync, constants, fstatSync, lstatSync, openSync, type Stats } from "node:fs";
import { link, lstat, mkdir, open, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { isLoopbackHost, parseHttpUrl } from "../contract/address.ts";

/** Reports whether a file belongs to the effective user, who owns what is written; always true without user ids. */
export const isOwn = ({ uid }: { uid: number }): boolean => uid === (process.geteuid?.() ?? uid);

const isClosedToOthers = ({ mode }: Stats): boolean => process.platform === "win32" || (mode & 0o077) === 0;

/**
 * Writes a new file that only its owner may read, and moves it into place whole. A link at the path is replaced, never
 * followed; a folder, a device or a pipe is refused. `mayReplace: false`: fails with EEXIST if the path exists.
 */
export const writePrivateFile = async (path: string, text: string, { mayReplace = true } = {}): Promise<void> => {
  const there = mayReplace ? await stat(path).catch(() => null) : null;
  if (there?.isFile() === false)
    throw Object.assign(new Error(`${path} is there and is no regular file`), { code: "ENOTREG" });
  const draft = `${path}.${randomBytes(6).toString("hex")}.part`;
  try {
    await writeFile(draft, text, { mode: 0o600, flag: "wx", flush: true });
    // `link` fails if the name is taken; `rename` would replace the file.
    await (mayReplace ? rename(draft, path) : link(draft, path));
  } finally {
    await rm(draft, { force: true });
  }
};

/** The text of a file that only this user can have written or read; `null` for any other file. */
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

/** Makes a token for a service that this project opens (a control plane, the watchdog), if the user states none. */
export const makeToken = (): string => randomBytes(32).toString("hex");

const TOKEN_CHARS_MOST = 1_024;

const doors = (): string => join(tmpdir(), `floodgate-doors-${process.geteuid?.() ?? "user"}`);
const tokenFile = (port: string): string => join(doors(), `${port}.token`);

/** Writes the token of a loopback service to a file named after its port. Call it before the address is published. */
export const handOverToken = async (url: string, token: string) => {
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

/** The token that the service at a loopback URL wrote for this user; `null` if it wrote none or is on another host. */
export const tokenOfDoor = async (url: string): Promise<string | null> => {
  const { host, port } = parseHttpUrl(url);
  if (!isLoopbackHost(host) || !(await isPrivateFolder(doors()))) return null;
  return (await readPrivateFile(tokenFile(port), TOKEN_CHARS_MOST))?.trim() || null;
};

const OTHERS_MAY_WRITE = 0o022;
/** Far above any journal: one of a whole night has some thousand lines. */
const BYTES_MOST = 64 * 1024 * 1024;

/** Says why another user may have written a file, in words that follow its name; `null` if only this user may. */
export const whyNotOwn = ({ uid, mode }: Pick<Stats, "uid" | "mode">): string | null => {
  if (process.geteuid === undefined) return null;
  if (!isOwn({ uid })) return `belongs to the user with the number ${uid}, and this is ${process.geteuid()}`;
  return (mode & OTHERS_MAY_WRITE) === 0 ? null : "may be written by others; `chmod go-w` it if you know who wrote it";
};

const whyNotRead = (about: Stats): string | null => {
  if (!about.isFile()) return "is no file";
  if (about.nlink > 1) return "has a second name (a hard link)";
  return about.size > BYTES_MOST ? `is larger than ${BYTES_MOST} bytes` : whyNotOwn(about);
};

/** Opens a file. File and folder must belong to this user, be writable by nobody else, and not be links. */
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
    // O_NONBLOCK, because opening a pipe would wait for its other end.
    descriptor = openSync(path, how | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ELOOP") return refuse(`${path} is a link`);
    throw error;
  }
  const wrong = whyNotRead(fstatSync(descriptor));
  if (wrong === null) return descriptor;
  closeSync(descriptor);
  return refuse(`${path} ${wrong}`);
};
