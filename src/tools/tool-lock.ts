/**
 * Long work on tools: a lock file between processes that would build the same one. It only saves work, because a binary
 * appears by one rename; so a lock that looks dead is taken over.
 */
import { readFile, stat, unlink, utimes, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { ToolOptions } from "./tool-recipe.ts";

const STALE_MS = 60_000;
const TOUCH_MS = 10_000;
const POLL_MS = 200;
const REMINDER_MS = 30_000;

export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
};

/** Gives the lock at `path` back. A lock is dead when its process is, or when nobody has touched it for a minute. */
const takeLock = async (
  path: string,
  what: string,
  { signal, reminderMs, progress }: ToolOptions,
): Promise<() => Promise<void>> => {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    signal?.throwIfAborted();
    try {
      await writeFile(path, String(process.pid), { flag: "wx" });
      const touch = setInterval(() => void utimes(path, new Date(), new Date()).catch(() => {}), TOUCH_MS).unref();
      return async () => {
        clearInterval(touch);
        await unlink(path).catch(() => {});
      };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const pid = Number(await readFile(path, "utf8").catch(() => ""));
    const untouchedMs = Date.now() - ((await stat(path).catch(() => null))?.mtimeMs ?? Date.now());
    if ((pid > 0 && !isAlive(pid)) || untouchedMs > STALE_MS) {
      await unlink(path).catch(() => {});
      continue;
    }
    if (waitedMs % (reminderMs ?? REMINDER_MS) < POLL_MS) {
      progress?.(`waiting for another process that is ${what}${pid > 0 ? ` (process ${pid})` : ""}`);
    }
    await sleep(POLL_MS);
  }
};

/** Does the work while no other process does; `what` says in a word what it is, for those that wait. */
export const underLock = async <T>(
  path: string,
  what: string,
  options: ToolOptions,
  work: () => Promise<T>,
): Promise<T> => {
  const release = await takeLock(path, what, options);
  return await work().finally(release);
};

/** Does long work, and says every half a minute that it goes on; `work` gets the time that has passed, in words. */
export const withReminders = async <T>(
  what: string,
  { progress, reminderMs = REMINDER_MS }: ToolOptions,
  work: (elapsed: () => string) => Promise<T>,
): Promise<T> => {
  const began = performance.now();
  const elapsed = (): string => `${Math.round((performance.now() - began) / 1000)} s`;
  const reminder = setInterval(() => progress?.(`still ${what}, ${elapsed()}`), reminderMs);
  return await work(elapsed).finally(() => clearInterval(reminder));
};
