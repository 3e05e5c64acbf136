/**
 * A lock that one process holds at a time. Each contender has a file in a folder that all share, named by a hash of
 * what is locked, its process and a nonce, and empty until it holds the lock. A file is removed by its own process, by
 * that process's watchdog, or by whoever finds the process gone: never by a rival. Only this user's files count.
 */
import { createHash, randomBytes } from "node:crypto";
import { lstatSync, readdirSync, rmSync, type Stats, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isOwn } from "./private-file.ts";
import { hasEnded, startTimeOf } from "./processes.ts";
import { decoded } from "./redaction.ts";
import { blockThread } from "./waiting.ts";

/** How often, and at what interval, to wait for another new contender to give way. */
const LOOKS = 200;
const LOOK_MS = 10;

const NAME = /^floodgate-([0-9a-f]{16})-(\d+)-(\S*)-([0-9a-f]{16})\.lock$/;

type Claim = { path: string; hash: string; pid: number; nonce: string };

/** Ignores links and other users' files, which anybody can create in a shared folder. */
const ownFile = (path: string): Stats | null => {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true && isOwn(found) ? found : null;
};

/** The files of living contenders for any lock in the folder. Removes the files of dead processes. */
const livingClaims = (folder: string): Claim[] =>
  readdirSync(folder).flatMap((name) => {
    const [, hash = "", id = "", start = "", nonce = ""] = NAME.exec(name) ?? [];
    const path = join(folder, name);
    if (hash === "" || ownFile(path) === null) return [];
    const pid = Number(id);
    if (!hasEnded({ pid, start: decoded(start) })) return [{ path, hash, pid, nonce }];
    rmSync(path, { force: true });
    return [];
  });

const isHeld = ({ path }: Claim): boolean => (ownFile(path)?.size ?? 0) > 0;

/** Takes the lock named `what`, which its file then says. Returns the rival in the way if it cannot be had now. */
export const takeLock = (folder: string, what: string) => {
  const hash = createHash("sha256").update(what).digest("hex").slice(0, 16);
  const nonce = randomBytes(8).toString("hex");
  const start = encodeURIComponent(startTimeOf(process.pid) ?? "");
  const path = join(folder, `floodgate-${hash}-${process.pid}-${start}-${nonce}.lock`);
  const release = (): void => rmSync(path, { force: true });
  writeFileSync(path, "", { mode: 0o600, flag: "wx" });
  try {
    // Each of two contenders looks after creating its file, so at least one of them sees the other.
    for (let look = 0; ; look++) {
      const rivals = livingClaims(folder)
        .filter((claim) => claim.hash === hash && claim.nonce !== nonce)
        .sort((a, b) => (a.nonce < b.nonce ? -1 : 1));
      const rival = rivals.find(isHeld) ?? rivals[0];
      if (rival === undefined) break;
      // Of two new contenders, the one with the smaller nonce stays.
      if (isHeld(rival) || rival.nonce < nonce || look === LOOKS) {
        release();
        return { rival, lock: null };
      }
      blockThread(LOOK_MS);
    }
    writeFileSync(path, `${what}\n`);
  } catch (error) {
    release();
    throw error;
  }
  return { rival: null, lock: { path, release } };
};
