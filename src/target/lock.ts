/**
 * One run per target at a time, because two would heal each other's faults. Each run has a file in the OS's temporary
 * folder, named by a hash of the target's URL, its process and a nonce, and empty until the run holds the target. A
 * file is removed by its run, the run's watchdog, or whoever finds the process gone. Only this user's files count.
 */
import { createHash, randomBytes } from "node:crypto";
import { lstatSync, readdirSync, rmSync, type Stats, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isOwn } from "../supervision/private-file.ts";
import { isAlive, type ProcessId, startTimeOf } from "../supervision/processes.ts";
import { decoded } from "../supervision/redaction.ts";
import { targetUrl } from "./target-urls.ts";

/** Reports a mistake of the user, which exits with code 2. */
export class TargetBusyError extends Error {
  readonly pid: number;
  override name = "TargetBusyError";
  constructor(pid: number, baseUrl: string, path: string) {
    const what = `another run (process ${pid}) works on ${baseUrl} now; wait for it, or stop it with \`kill ${pid}\``;
    super(`${what}. One run per target at a time (lock file ${path}).`);
    this.pid = pid;
  }
}

export type Lock = { readonly path: string; release: () => void };

/** How often, and at what interval, to wait for another new run to give way. */
const LOOKS = 200;
const LOOK_MS = 10;

const NAME = /^floodgate-([0-9a-f]{16})-(\d+)-(\S*)-([0-9a-f]{16})\.lock$/;

type Claim = { path: string; target: string; process: ProcessId; nonce: string };

/** Reports whether a process may still run. If its start time is unknown, any process with that id counts. */
const mayLive = (of: ProcessId): boolean => {
  if (isAlive(of)) return true;
  if (process.platform === "linux" || (of.start !== "" && startTimeOf(of.pid) !== null)) return false;
  try {
    return process.kill(of.pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
};

/** Ignores links and other users' files, which anybody can create in a shared folder. */
const ownFile = (path: string): Stats | null => {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true && isOwn(found) ? found : null;
};

/** Lock files of living processes, for any target. Removes the files of dead processes. */
const livingClaims = (folder: string): Claim[] =>
  readdirSync(folder).flatMap((name) => {
    const [, target = "", pid = "", start = "", nonce = ""] = NAME.exec(name) ?? [];
    if (target === "" || ownFile(join(folder, name)) === null) return [];
    const claim = { path: join(folder, name), target, process: { pid: Number(pid), start: decoded(start) }, nonce };
    if (mayLive(claim.process)) return [claim];
    rmSync(claim.path, { force: true });
    return [];
  });

/** Reports whether a run holds the target, because it has written into its file. */
const isHeld = ({ path }: Claim): boolean => (ownFile(path)?.size ?? 0) > 0;

const pause = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

/** Locks a target. Throws `TargetBusyError` if a living run holds it. */
export const lockTarget = (baseUrl: string, folder: string = tmpdir()): Lock => {
  const target = targetUrl(baseUrl);
  const hash = createHash("sha256").update(target).digest("hex").slice(0, 16);
  const nonce = randomBytes(8).toString("hex");
  const start = encodeURIComponent(startTimeOf(process.pid) ?? "");
  const path = join(folder, `floodgate-${hash}-${process.pid}-${start}-${nonce}.lock`);
  const release = (): void => rmSync(path, { force: true });
  writeFileSync(path, "", { mode: 0o600, flag: "wx" });
  try {
    // Each of two runs looks after creating its file, so at least one of them sees the other.
    for (let look = 0; ; look++) {
      const rivals = livingClaims(folder)
        .filter((claim) => claim.target === hash && claim.nonce !== nonce)
        .sort((a, b) => (a.nonce < b.nonce ? -1 : 1));
      const rival = rivals.find(isHeld) ?? rivals[0];
      if (rival === undefined) break;
      // Of two new runs, the one with the smaller nonce stays.
      if (isHeld(rival) || rival.nonce < nonce || look === LOOKS) {
        throw new TargetBusyError(rival.process.pid, target, rival.path);
      }
      pause(LOOK_MS);
    }
    writeFileSync(path, `${target}\n`);
  } catch (error) {
    release();
    throw error;
  }
  return { path, release };
};
