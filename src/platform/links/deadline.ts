/**
 * Deadlines that a stalled process does not hold against its dependency. When a timer of ours has expired, the answer may
 * lie unread in the socket's buffer; so it is looked at again after one turn of the event loop. If the timer fired much too
 * late, the process was not there to ask or to listen, and the dependency gets that time back, once.
 */

/** A timer this late means a stall of ours, not of the usual jitter. */
const STALL_MS = 20;

/** Calls `onExpired` once `budgetMs` have passed, unless the returned function is called before. */
export const startDeadline = (budgetMs: number, onExpired: () => void): (() => void) => {
  const dueMs = performance.now() + budgetMs;
  let cancelled = false;
  let extended = false;
  let timer: NodeJS.Timeout;
  const lookAgain = (): void => {
    if (cancelled) return;
    const lateMs = performance.now() - dueMs;
    if (!extended && lateMs > STALL_MS) {
      extended = true;
      timer = setTimeout(() => setImmediate(lookAgain), Math.min(lateMs, budgetMs));
      return;
    }
    cancelled = true;
    onExpired();
  };
  timer = setTimeout(() => setImmediate(lookAgain), budgetMs);
  return () => {
    cancelled = true;
    clearTimeout(timer);
  };
};
