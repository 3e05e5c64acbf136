/**
 * A child with a deadline: when it is late, it is killed with its group, where it leads one. Nothing waits for its
 * orphans.
 */
import type { ChildProcess } from "node:child_process";

type ChildEnd = {
  code: number | null;
  signal: NodeJS.Signals | null;
  error: string | null;
  /** What it did not do in time, and was ended for. */
  late: string | null;
};

export type BoundedChild = {
  /** Always resolves once a deadline was set or the child has ended. */
  ended: Promise<ChildEnd>;
  /** Sets its deadline anew; `what` completes "did not …". */
  due(ms: number, what: string): void;
  kill(): void;
};

/** Its last lines come with `close`, which does not come while a child of its own holds the pipe. */
const REST_OF_OUTPUT_MS = 500;
/** What a timer of Node takes; a longer one would fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;
/** A process that the kernel cannot end is left. */
const KILL_MS = 2_000;

export const boundChild = (child: ChildProcess): BoundedChild => {
  const { promise: ended, resolve } = Promise.withResolvers<ChildEnd>();
  const end: ChildEnd = { code: null, signal: null, error: null, late: null };
  let deadline: NodeJS.Timeout | undefined;
  let isOver = false;
  const over = (): void => {
    isOver = true;
    clearTimeout(deadline);
    resolve(end);
  };
  const kill = (): void => {
    if (isOver || child.pid === undefined) return;
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // No group of its own, or gone.
      child.kill("SIGKILL");
    }
  };
  child.on("error", (error) => {
    end.error = error.message;
    if (child.pid === undefined) over();
  });
  child.once("exit", (code, signal) => {
    Object.assign(end, { code, signal });
    clearTimeout(deadline);
    isOver = true;
    setTimeout(over, REST_OF_OUTPUT_MS).unref();
  });
  child.once("close", over);
  const tooLate = (what: string): void => {
    end.late = what;
    kill();
    deadline = setTimeout(over, KILL_MS);
  };
  return {
    ended,
    kill,
    due: (ms, what) => {
      clearTimeout(deadline);
      if (!isOver) deadline = setTimeout(tooLate, Math.min(ms, TIMER_MS_MAX), what);
    },
  };
};
