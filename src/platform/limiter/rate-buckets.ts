/**
 * The request-rate buckets of all keys, in memory: one number each. A bucket that is full again is as good as one never
 * used, so it is dropped; after a restart every bucket is full.
 */

export type RateBuckets = {
  tatMs(key: string): number | undefined;
  set(key: string, tatMs: number, steadyMs: number): void;
  size(): number;
};

/** Below this many buckets, looking for full ones is not worth it. */
const SWEEP_FROM = 1024;

export const rateBuckets = (): RateBuckets => {
  const tats = new Map<string, number>();
  let sweepAt = SWEEP_FROM;
  return {
    tatMs: (key) => tats.get(key),
    set: (key, tatMs, steadyMs) => {
      tats.set(key, tatMs);
      if (tats.size < sweepAt) return;
      for (const [name, tat] of tats) if (tat <= steadyMs) tats.delete(name);
      // Twice what is left: a sweep costs a constant for each bucket made.
      sweepAt = Math.max(SWEEP_FROM, tats.size * 2);
    },
    size: () => tats.size,
  };
};
