/** Listens for signals that stop a run, so that it ends in order, also during a build or a report. */
export const STOP_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export const listenForStop = (onSignal: (signal: NodeJS.Signals, times: number) => void) => {
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
    stoppedBy: (): NodeJS.Signals | null => first,
    release: (): void => {
      for (const signal of STOP_SIGNALS) process.off(signal, heard);
    },
  };
};

/** For commands without a supervisor: runs `cleanUp` before a signal ends the process. Returns the cancel function. */
export const beforeSignalEnds = (cleanUp: () => void): (() => void) => {
  const { release } = listenForStop((signal) => {
    release();
    try {
      cleanUp();
    } catch {} // the process ends all the same
    // Our listener kept the signal from ending the process. If nobody else listens, it is sent again and ends it.
    if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
  });
  return release;
};
