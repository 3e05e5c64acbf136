/**
 * One run per target at a time: two runs on one deployment would load each other's measurement and heal each other's
 * faults. Each run has a file of its own, empty until it holds the target, in the temporary folder of the OS, whose name holds a hash of the
 * target's URL, the run's process and a nonce. So nobody ever removes a file that could have become another run's: one
 * is removed by its own run, by that run's watchdog, or by whoever finds its process gone. Only files of one's own user count.
 */
import { createHash, randomBytes } from "node:crypto";
import { lstatSync, readdirSync, rmSync, type Stats, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isOwn } from "../supervision/private-file.ts";
import { isAlive, type ProcessId, startTimeOf } from "../supervision/processes.ts";
import { targetUrl } from "./target-urls.ts";

/** A mistake of the user, for exit code 2. */
export class TargetBusyError extends Error {
  readonly pid: number;
  constructor(pid: number, baseUrl: string, path: string) {
    super(
      `another run (process ${pid}) works on ${baseUrl} now; wait for it, or stop it with \`kill ${pid}\`. One run per target at a time (lock file ${path}).`,
    );
    this.name = "TargetBusyError";
    this.pid = pid;
  }
}

export type Lock = { readonly path: string; release: () => void };

/** How often, and after how many milliseconds each, a run looks again whether one that came with it has given way. */
const LOOKS = 200;
const LOOK_MS = 10;

const NAME = /^floodgate-([0-9a-f]{16})-(\d+)-(\S*)-([0-9a-f]{16})\.lock$/;

type Claim = { path: string; target: string; process: ProcessId; nonce: string };

/** Where the start time is unknown, any process of that number counts as the run. */
const mayLive = (of: ProcessId): boolean => {
  if (isAlive(of)) return true;
  if (process.platform === "linux" || (of.start !== "" && startTimeOf(of.pid) !== null)) return false;
  try {
    return process.kill(of.pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
};

/** Ignores links and other users' files, which anybody can plant in a shared folder. */
const ownFile = (path: string): Stats | null => {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true && isOwn(found) ? found : null;
};

/** Those of this user's living processes, whatever their target; what dead ones left behind is removed on the way. */
const livingClaims = (folder: string): Claim[] =>
  readdirSync(folder).flatMap((name) => {
    const [, target = "", pid = "", start = "", nonce = ""] = NAME.exec(name) ?? [];
    if (target === "" || ownFile(join(folder, name)) === null) return [];
    const claim = { path: join(folder, name), target, process: { pid: Number(pid), start: decode(start) }, nonce };
    if (mayLive(claim.process)) return [claim];
    rmSync(claim.path, { force: true });
    return [];
  });

const decode = (start: string): string => {
  try {
    return decodeURIComponent(start);
  } catch {
    return start;
  }
};

/** One that holds the target has written into its file; one that only asks has not. */
const isHeld = ({ path }: Claim): boolean => (ownFile(path)?.size ?? 0) > 0;

const pause = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

/** Throws `TargetBusyError` when a living run has it. */
export const lockTarget = (baseUrl: string, folder: string = tmpdir()): Lock => {
  const target = targetUrl(baseUrl);
  const hash = createHash("sha256").update(target).digest("hex").slice(0, 16);
  const nonce = randomBytes(8).toString("hex");
  const start = encodeURIComponent(startTimeOf(process.pid) ?? "");
  const path = join(folder, `floodgate-${hash}-${process.pid}-${start}-${nonce}.lock`);
  const release = (): void => rmSync(path, { force: true });
  writeFileSync(path, "", { mode: 0o600, flag: "wx" });
  try {
    // Of two runs the one whose file came later sees the other's here: both cannot find themselves alone.
    for (let look = 0; ; look++) {
      const rivals = livingClaims(folder)
        .filter((claim) => claim.target === hash && claim.nonce !== nonce)
        .sort((a, b) => (a.nonce < b.nonce ? -1 : 1));
      const rival = rivals.find(isHeld) ?? rivals[0];
      if (rival === undefined) break;
      // Both have just come: the one with the smaller nonce stays, the other gives way.
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
