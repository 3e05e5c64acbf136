/**
 * SIGINT, SIGTERM and SIGHUP as data, from the first moment of a run on: also while tools are built or a report is
 * written, a signal ends the run in order and never in the middle of a line.
 */
export type StopSignals = {
  readonly signal: AbortSignal;
  stoppedBy(): NodeJS.Signals | null;
  /** Back to what signals did before. */
  release(): void;
};

export const STOP_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export const listenForStop = (onSignal: (signal: NodeJS.Signals, times: number) => void): StopSignals => {
  const stopping = new AbortController();
  let first: NodeJS.Signals | null = null;
  let times = 0;
  const heard = (signal: NodeJS.Signals): void => {
    first ??= signal;
    times += 1;
    stopping.abort();
    onSignal(signal, times);
  };
  for (const signal of STOP_SIGNALS) process.on(signal, heard);
  return {
    signal: stopping.signal,
    stoppedBy: () => first,
    release: () => {
      for (const signal of STOP_SIGNALS) process.off(signal, heard);
    },
  };
};

/**
 * For a command without a supervisor: what it made outside is removed also when a signal ends it, and the signal then ends the
 * process as it would have. Returns the way to forget it.
 */
export const beforeSignalEnds = (cleanUp: () => void): (() => void) => {
  const { release } = listenForStop((signal) => {
    release();
    try {
      cleanUp();
    } catch {
      // The process ends all the same.
    }
    // Our listener kept the signal from ending the process. If nobody else listens, it is sent again and ends it.
    if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
  });
  return release;
};
