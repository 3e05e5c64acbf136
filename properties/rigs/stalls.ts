/**
 * Detects stalls of this process, which runs the servers too: a case that broke during a stall shows nothing about budgets
 * of some hundred milliseconds. Such a case is set aside and never passed.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import fc from "fast-check";

/** Interval at which the event loop's delay is sampled; subtracted from the measured delay. */
const LOOKS_MS = 10;
/** Largest and mean delay of the event loop that count as a stall: a call needs a dozen turns of the loop in its budget. */
const ONCE_MS = 150;
const ALWAYS_MS = 20;

type Tried = { error: unknown; stalled: string | null } | null;

/** Runs a case; `null`: it held. */
const tried = async (run: () => Promise<void>): Promise<Tried> => {
  const delay = monitorEventLoopDelay({ resolution: LOOKS_MS });
  delay.enable();
  try {
    await run();
    return null;
  } catch (error) {
    const [onceMs, alwaysMs] = [delay.max / 1e6 - LOOKS_MS, delay.mean / 1e6 - LOOKS_MS];
    const stalled = onceMs > ONCE_MS || alwaysMs > ALWAYS_MS;
    return {
      error,
      stalled: stalled ? `${Math.round(onceMs)} ms at most, ${Math.round(alwaysMs)} ms on average` : null,
    };
  } finally {
    delay.disable();
  }
};

/** For a property: discards a case that broke in a stall. fast-check fails a property that discards too many. */
export const unlessStalled = async (run: () => Promise<void>): Promise<void> => {
  const seen = await tried(run);
  if (seen === null) return;
  if (seen.stalled !== null) fc.pre(false);
  throw seen.error;
};

const ATTEMPTS_MAX = 4;

/** For a single case: tries it again if it broke in a stall. Throws if the machine stalls in every attempt. */
export const againIfStalled = async (run: () => Promise<void>): Promise<void> => {
  let stalled = "";
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
    const seen = await tried(run);
    if (seen === null) return;
    if (seen.stalled === null) throw seen.error;
    stalled = `${(seen.error as Error).message} (the process was kept from running for ${seen.stalled})`;
  }
  throw new Error(`Not judged in ${ATTEMPTS_MAX} attempts, because the machine is too busy: ${stalled}`);
};
