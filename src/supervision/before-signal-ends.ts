/** For a command that no supervisor watches: what it made outside is removed also when Ctrl-C ends it. */
import { STOP_SIGNALS } from "./stop-signals.ts";

/** The signal then ends the process as it would have. Returns the way to forget it. */
export const beforeSignalEnds = (cleanUp: () => void): (() => void) => {
  const forget = (): void => {
    for (const signal of STOP_SIGNALS) process.off(signal, heard);
  };
  const heard = (signal: NodeJS.Signals): void => {
    forget();
    try {
      cleanUp();
    } finally {
      process.kill(process.pid, signal);
    }
  };
  for (const signal of STOP_SIGNALS) process.on(signal, heard);
  return forget;
};
