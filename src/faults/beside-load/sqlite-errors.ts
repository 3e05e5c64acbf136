/** Errors of an SQLite store, brought about from outside the process that uses it. */
import { execFile } from "node:child_process";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import type { Part } from "../../deployments/part.ts";
import { type Breaker, wakeUp } from "./breaker.ts";

const TIMES = { injectMs: 5_000, effectMs: 5_000, healMs: 15_000 };
const PROBE_WAIT_MS = 0;
const TAKE_MS = 3_000;

const tries = (path: string): boolean => {
  const db = new DatabaseSync(path, { timeout: PROBE_WAIT_MS });
  try {
    db.exec("BEGIN IMMEDIATE; ROLLBACK");
    return true;
  } catch {
    return false;
  } finally {
    db.close();
  }
};

/** Another connection begins to write and does not end. The lock is this process's and goes with it. */
export const locked = (path: string): Breaker => {
  let holder: DatabaseSync | null = null;
  return {
    ...TIMES,
    stream: "both",
    undo: { how: "nothing" },
    notes: [],
    inject: async () => {
      holder = new DatabaseSync(path, { timeout: TAKE_MS });
      holder.exec("BEGIN EXCLUSIVE");
    },
    showsAtPart: async () => holder !== null && !tries(path),
    heal: async () => {
      if (holder?.isTransaction) holder.exec("ROLLBACK");
      holder?.close();
      holder = null;
      return [];
    },
  };
};

const run = promisify(execFile);

/** The soft limit alone, which may be raised again. */
const limitFiles = async (pid: number, most: "0" | "unlimited"): Promise<void> => {
  await run("prlimit", ["--pid", `${pid}`, `--fsize=${most}:`]).catch((error: NodeJS.ErrnoException) => {
    const missing = error.code === "ENOENT" ? "there is no prlimit here (util-linux, Linux only)" : error.message;
    throw new Error(`a full disk cannot be played: ${missing}`);
  });
};

/** Not one byte may be written to a file any more: to the process it is a disk that takes nothing. */
export const diskFull = (limiter: Part): Breaker => ({
  ...TIMES,
  stream: "both",
  notes: [],
  undo: wakeUp(limiter),
  inject: () => limitFiles(limiter.pid(), "0"),
  // That a limit stands is no proof that anything was to be written.
  showsAtPart: null,
  heal: async (signal) => {
    if (limiter.isRunning()) await limitFiles(limiter.pid(), "unlimited");
    await limiter.bringBack(signal);
    return [];
  },
});
