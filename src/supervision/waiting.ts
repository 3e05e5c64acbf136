/** Waiting for a condition with a deadline, blocking a thread, working on several items at once, and the clock of a run. */

/**
 * Resolves after `ms`, or as soon as the signal fires. Uses the global timer, because virtual time
 * (`simulation/virtual-time.ts`) replaces it and cannot replace that of `node:timers/promises`.
 */
export const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });

const nobodyWakes = new Int32Array(new SharedArrayBuffer(4));

/** Blocks the thread, its event loop included, for `ms`, which may be a fraction. */
export const blockThread = (ms: number): void => void Atomics.wait(nobodyWakes, 0, 0, ms);

/**
 * Runs `work` for each item, `most` at once, started in order. Resolves to what it returned, in the same order. Rejects with the
 * first error, and then starts no further item.
 */
export const eachAtOnce = async <T, R>(most: number, items: readonly T[], work: (item: T) => Promise<R>) => {
  const results: R[] = [];
  const queue = items.entries().map(async ([at, item]) => {
    results[at] = await work(item);
  });
  const worker = async (): Promise<void> => {
    // A throw leaves the loop, which closes the queue for every worker.
    for (const worked of queue) await worked;
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
  return results;
};

/** Works on each item in turn, also after a failure. Throws at the end what failed, in one message. */
export const tryEach = async <T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> => {
  const troubles: string[] = [];
  const tried = (item: T) => work(item).catch((error: Error) => void troubles.push(error.message));
  const results = await Array.fromAsync(items, tried);
  if (troubles.length > 0) throw new Error(troubles.join("; "));
  return results as R[];
};

/** The promise's value, or `late` if it takes longer than `ms`, or if the signal fires first. */
export const inTime = async <T>(promise: Promise<T>, ms: number, ...signals: AbortSignal[]): Promise<T | "late"> => {
  const over = new AbortController();
  const late = pause(ms, AbortSignal.any([over.signal, ...signals])).then(() => "late" as const);
  return Promise.race([promise, late]).finally(() => over.abort());
};

/** Polls until the condition is met or `forMs` is over; then aborts its signal. Never rejects: a throw is not met. */
export const waitUntil = async (
  condition: (signal: AbortSignal) => Promise<boolean>,
  { forMs, pollMs, signal: outer }: { forMs: number; pollMs: number; signal?: AbortSignal },
): Promise<{ met: boolean; lastError: string | null }> => {
  const own = new AbortController();
  const timer = setTimeout(() => own.abort(), forMs);
  const signal = outer === undefined ? own.signal : AbortSignal.any([own.signal, outer]);
  const { promise: over, resolve } = Promise.withResolvers<false>();
  signal.addEventListener("abort", () => resolve(false), { once: true });
  let lastError: string | null = null;
  try {
    while (!signal.aborted) {
      const asked = condition(signal).catch((error: unknown) => {
        if (!signal.aborted) lastError = (error as Error).message;
        return false;
      });
      if (await Promise.race([asked, over])) return { met: true, lastError: null };
      await pause(pollMs, signal);
    }
    return { met: false, lastError };
  } finally {
    clearTimeout(timer);
  }
};

// Monotonic microseconds since a run began. Each process takes `timeOrigin` from the wall clock at its start, which may
// step; a driver's process is given the runner's `clockBaseUs`, to tell the time as the runner does.

/** Cached, because reading it costs more than reading the time. */
const ORIGIN_MS = performance.timeOrigin;

/** Microseconds since 1970, without steps while the process lives. */
export const wallUs = (): number => Math.round((ORIGIN_MS + performance.now()) * 1000);

/** A clock that is read to the millisecond shows no smaller difference. */
export const CLOCK_READ_US = 2_000;

/** Microseconds by which the wall clock was set ahead (positive) or back since this process began. */
export const clockSetUs = (): number => {
  const us = Date.now() * 1000 - wallUs();
  return Math.abs(us) < CLOCK_READ_US ? 0 : us;
};

export type RunClock = Readonly<ReturnType<typeof createRunClock>>;

const monotonicUs = (): number => Number(process.hrtime.bigint()) / 1000;

/** How far the clocks of two processes may be apart by their `clockBaseUs`. */
export const BASES_ERROR_US = 50;

const READINGS = 20;

/**
 * Returns how far `wallUs` is ahead of the monotonic clock, which all processes of a machine share. Of several readings, the one
 * that took the least time counts.
 */
export const clockBaseUs = (): number => {
  let [best, leastUs] = [0, Number.POSITIVE_INFINITY];
  for (let reading = 0; reading < READINGS; reading += 1) {
    const beganUs = monotonicUs();
    const baseUs = wallUs() - beganUs;
    const tookUs = monotonicUs() - beganUs;
    if (tookUs < leastUs) [best, leastUs] = [baseUs, tookUs];
  }
  return best;
};

/** `baseUs`: the runner's, in another process. `errorUs`: the uncertainty against the runner's clock. */
export const createRunClock = (epochUs: number, baseUs?: number) => {
  const behindUs = baseUs === undefined ? 0 : Math.round(baseUs - clockBaseUs());
  return { nowUs: (): number => wallUs() + behindUs - epochUs, errorUs: baseUs === undefined ? 0 : BASES_ERROR_US };
};
