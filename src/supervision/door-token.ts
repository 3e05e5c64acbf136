/**
 * Tokens of the doors that this project opens on loopback: control planes and the watchdog. Each has one, made up where the user
 * gave none, and hands it over in a file that only the same user can read, named after its port. So another user of the
 * machine and a page in a browser stay outside, and nobody has to copy a token.
 */
import { randomBytes } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseHttpUrl } from "../contract/address.ts";
import { isLoopbackHost } from "../contract/loopback.ts";
import { isPrivateFolder, readPrivateFile, writePrivateFile } from "./private-file.ts";

export const makeToken = (): string => randomBytes(32).toString("hex");

const TOKEN_CHARS_MOST = 1_024;

const folder = (): string => join(tmpdir(), `floodgate-doors-${process.getuid?.() ?? "user"}`);
const fileOf = (port: string): string => join(folder(), `${port}.token`);

export type HandedToken = { path: string; remove(): Promise<void> };

/** Before the door's address is told to anybody. */
export const handOverToken = async (url: string, token: string): Promise<HandedToken> => {
  await mkdir(folder(), { recursive: true, mode: 0o700 });
  if (!(await isPrivateFolder(folder()))) {
    throw new Error(
      `expected ${folder()} to be a folder of yours that nobody else can enter; remove it, or set TMPDIR to a folder of your own`,
    );
  }
  const path = fileOf(parseHttpUrl(url).port);
  await writePrivateFile(path, `${token}\n`);
  return { path, remove: () => rm(path, { force: true }) };
};

/** What the door behind a URL handed over on this machine; `null` where it handed over nothing, or stands elsewhere. */
export const tokenOfDoor = async (url: string): Promise<string | null> => {
  const { host, port } = parseHttpUrl(url);
  if (!isLoopbackHost(host) || !(await isPrivateFolder(folder()))) return null;
  const text = await readPrivateFile(fileOf(port), TOKEN_CHARS_MOST);
  return text?.trim() || null;
};
