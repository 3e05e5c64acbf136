/** Ends a run in order before its heap is full: V8 would abort without a report and with faults in place. */
import { getHeapSpaceStatistics, getHeapStatistics } from "node:v8";

/** V8's limit includes the young generation (three half spaces of 32 MiB), but V8 aborts when the old one is full. */
const YOUNG_BYTES = 96 << 20;

const oldGeneration = (): { used: number; limit: number } => {
  const used = getHeapSpaceStatistics()
    .filter(({ space_name: name }) => !name.startsWith("new_") && !name.startsWith("read_only"))
    .reduce((sum, { space_used_size: size }) => sum + size, 0);
  return { used, limit: getHeapStatistics().heap_size_limit - YOUNG_BYTES };
};

const EVERY_MS = 250;
const FULL_SHARE = 0.9;
/** Looks in a row that find the heap full, so that garbage does not count: it is collected in between. */
const LOOKS = 3;

/** Calls `onFull` once when the heap is nearly full. Returns the function that ends the watch. */
export const watchMemory = (onFull: (error: Error) => void): (() => void) => {
  let full = 0;
  const timer = setInterval(() => {
    const { used, limit } = oldGeneration();
    full = used > limit * FULL_SHARE ? full + 1 : 0;
    if (full < LOOKS) return;
    clearInterval(timer);
    const why = `the memory of this process is full (${Math.round(limit / 1e6)} MB), so the run was ended before the system would have ended it`;
    onFull(
      new Error(
        `${why}; play it shorter or at a lower rate, or give it more by NODE_OPTIONS=--max-old-space-size=MEGABYTES`,
      ),
    );
  }, EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
};
