/**
 * What the machine did meanwhile: a case that broke while this process, servers
 * and all, was kept from running shows nothing about budgets of some hundred milliseconds. It is set aside then, never passed.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import fc from "fast-check";

/** Every how often it is looked; what the loop's delay is counted from. */
const LOOKS_MS = 10;
/** Once so late, or late by so much all the time: a call has a dozen turns of the loop to make within its budget. */
const ONCE_MS = 150;
const ALWAYS_MS = 20;

type Tried = { error: unknown; stalled: string | null } | null;

/** `null`: it held. */
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

/** For a property: a case that broke in a stall was not drawn. fast-check fails a property that is left with too few. */
export const unlessStalled = async (run: () => Promise<void>): Promise<void> => {
  const seen = await tried(run);
  if (seen === null) return;
  if (seen.stalled !== null) fc.pre(false);
  throw seen.error;
};

const ATTEMPTS_MAX = 4;

/** For a single case: it is tried again. A machine that never stands still long enough is told as such. */
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
