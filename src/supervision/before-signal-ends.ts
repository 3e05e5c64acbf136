/** For a command that no supervisor watches: what it made outside is removed also when Ctrl-C ends it. */
import { STOP_SIGNALS } from "./stop-signals.ts";

const pending = new Set<() => void>();

const forgetAll = (): void => {
  pending.clear();
  for (const signal of STOP_SIGNALS) process.off(signal, heard);
};

const heard = (signal: NodeJS.Signals): void => {
  const now = [...pending];
  forgetAll();
  for (const cleanUp of now) {
    try {
      cleanUp();
    } catch {
      // The others have their turn, and the process ends all the same.
    }
  }
  // Listening took the signal's own effect away; where nobody else listens it is given back.
  if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
};

/** The signal then ends the process as it would have. Returns the way to forget it. */
export const beforeSignalEnds = (cleanUp: () => void): (() => void) => {
  if (pending.size === 0) for (const signal of STOP_SIGNALS) process.on(signal, heard);
  pending.add(cleanUp);
  return () => {
    pending.delete(cleanUp);
    if (pending.size === 0) forgetAll();
  };
};
