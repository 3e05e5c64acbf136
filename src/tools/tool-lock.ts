/**
 * A lock file between processes that would build the same tool. It saves work and nothing hangs on it: a binary appears by one rename,
 * so a lock that looks dead is simply taken over.
 */
import { open, readFile, stat, unlink, utimes } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const STALE_MS = 60_000;
const TOUCH_MS = 10_000;
const POLL_MS = 200;

interface LockWait {
  /** Called with the holder's process id (0 when it is not known yet) when waiting begins and every `reminderMs`. */
  waiting: (pid: number) => void;
  reminderMs: number;
  signal: AbortSignal | undefined;
}

export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
};

/** Waits for the lock at `path` and returns how to give it back. A lock is dead when its process is, or when nobody has touched it for a minute. */
export const takeLock = async (path: string, wait: LockWait): Promise<() => Promise<void>> => {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    wait.signal?.throwIfAborted();
    try {
      const file = await open(path, "wx");
      await file.writeFile(String(process.pid));
      await file.close();
      const touch = setInterval(() => void utimes(path, new Date(), new Date()).catch(() => {}), TOUCH_MS);
      touch.unref();
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
    if (waitedMs % wait.reminderMs < POLL_MS) wait.waiting(pid);
    await sleep(POLL_MS);
  }
};
