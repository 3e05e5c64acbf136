/**
 * One run per target at a time: two runs on one deployment would load each other's measurement and heal each other's
 * faults. A file in the temporary folder of the OS, named by the target's URL, holds who runs; one whose process is gone
 * is taken over.
 */
import { createHash, randomBytes } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAlive, startTimeOf } from "../supervision/processes.ts";

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

type Holder = { pid: number; start: string; nonce: string };

/** Without what does not make it another target: case of the host, a trailing slash, user and password, query. */
const targetOf = (baseUrl: string): string => {
  const url = new URL(baseUrl);
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/+$/, "")}`;
};

const read = (path: string): Holder | null => {
  try {
    const holder = JSON.parse(readFileSync(path, "utf8")) as Partial<Holder>;
    return typeof holder.pid === "number" && typeof holder.start === "string" ? (holder as Holder) : null;
  } catch {
    return null;
  }
};

/** Throws `TargetBusyError` when a living run has it. */
export const lockTarget = (baseUrl: string, folder: string = tmpdir()): Lock => {
  const target = targetOf(baseUrl);
  const path = join(folder, `floodgate-${createHash("sha256").update(target).digest("hex").slice(0, 16)}.lock`);
  const nonce = randomBytes(8).toString("hex");
  const mine: Holder = { pid: process.pid, start: startTimeOf(process.pid) ?? "", nonce };
  const draft = `${path}.${nonce}`;
  writeFileSync(draft, JSON.stringify(mine), { mode: 0o644, flag: "wx" });
  try {
    for (let attempt = 0; attempt < 20; attempt++) {
      try {
        // Unlike a write, a link appears with its content, and fails when somebody else was first.
        linkSync(draft, path);
        return {
          path,
          release: () => {
            if (read(path)?.nonce === nonce) rmSync(path, { force: true });
          },
        };
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      }
      const holder = read(path);
      if (holder !== null && isAlive(holder)) throw new TargetBusyError(holder.pid, target, path);
      takeAway(path, holder?.nonce);
    }
    throw new Error(`the lock file ${path} is neither held nor free; remove it`);
  } finally {
    rmSync(draft, { force: true });
  }
};

/** Takes a stale lock away. By renaming, to see what was taken: another run may just have put its own there. */
const takeAway = (path: string, stale: string | undefined): void => {
  const taken = `${path}.stale-${randomBytes(4).toString("hex")}`;
  try {
    renameSync(path, taken);
  } catch {
    return; // Somebody else took it away.
  }
  const holder = read(taken);
  if (holder !== null && holder.nonce !== stale && isAlive(holder)) {
    try {
      linkSync(taken, path);
    } catch {
      // A third one was quicker; it is the holder then.
    }
  }
  rmSync(taken, { force: true });
};
