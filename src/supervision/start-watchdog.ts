/** The runner's end of the watchdog: starts it before anything else, and says good-bye when the run has ended in order. */
import { type ChildProcess, spawn } from "node:child_process";
import { RUN_MARK } from "./processes.ts";
import { pause } from "./waiting.ts";

const READY_MS = 15_000;

export type Watchdog = {
  readonly pid: number;
  /** Whether it is still there; one that ended early no longer protects anything. */
  isThere: () => boolean;
  /** All is in order: it goes at once. */
  bye: () => Promise<void>;
  /** Something was left behind: it takes it back as if the runner had died. Resolves when it has ended. */
  takeOver: () => Promise<void>;
};

const untilReady = (child: ChildProcess): Promise<void> =>
  new Promise((resolve, reject) => {
    const fail = (why: string): void => reject(new Error(`the watchdog did not start: ${why}; nothing was started`));
    const timer = setTimeout(() => fail(`no sign of life within ${READY_MS} ms`), READY_MS);
    child.once("error", (error) => fail(error.message));
    child.once("exit", (code) => fail(`it ended with ${code}`));
    child.stdout?.once("data", () => {
      clearTimeout(timer);
      child.removeAllListeners("exit");
      resolve();
    });
  });

/** `entry`: the file that calls `guardRunner`. Throws a sentence when it does not start: without it nothing may be started. */
export const startWatchdog = async (entry: string, journalPath: string, mark: string): Promise<Watchdog> => {
  // Without the mark: it is what is left when everything that carries the mark is ended.
  const { [RUN_MARK]: _, ...env } = process.env;
  const child = spawn(process.execPath, [entry, journalPath, mark], {
    detached: true,
    stdio: ["pipe", "pipe", "ignore"],
    env,
  });
  child.stdin.on("error", () => {});
  child.stdout.on("error", () => {});
  try {
    await untilReady(child);
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  // It must not keep a runner alive that has nothing else to do.
  child.unref();
  for (const pipe of [child.stdin, child.stdout]) (pipe as unknown as { unref: () => void }).unref();
  const isThere = (): boolean => child.exitCode === null && child.signalCode === null;
  const gone = async (forMs: number): Promise<void> => {
    if (!isThere()) return;
    child.ref();
    const inTime = new AbortController();
    await Promise.race([exited, pause(forMs, inTime.signal)]);
    inTime.abort();
    if (isThere()) child.kill("SIGKILL");
  };
  return {
    pid: child.pid as number,
    isThere,
    bye: async () => {
      if (isThere()) child.stdin.end("bye\n");
      await gone(2_000);
    },
    takeOver: async () => {
      if (isThere()) child.stdin.end();
      await gone(10_000);
    },
  };
};
