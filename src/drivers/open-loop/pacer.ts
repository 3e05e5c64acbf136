/**
 * Calls back at moments known beforehand. Node's timers count whole milliseconds, so the last one is spent in short naps,
 * with a turn of the event loop after each to read the sockets. A nap may last twice as long as asked, so the last
 * stretch is turns alone, which cost a whole core.
 */
import type { RunClock } from "../../client/clock.ts";

/** Nothing but turns when the next moment is nearer than this. */
const SPIN_US = 150;
/** With the machine's overhead an answer is seen at most a tenth of a millisecond late. */
const NAP_MS = 0.05;
/** An empty turn takes some 3 us, one that reads an answer ten times as long. */
const EMPTY_TURN_US = 15;
/**
 * After a pause everything is due at once; answers are read between batches, because undici searches for a free
 * connection longer the more calls are under way.
 */
const BATCH_MOST = 16;

const nobodyWakes = new Int32Array(new SharedArrayBuffer(4));
const nap = (): void => void Atomics.wait(nobodyWakes, 0, 0, NAP_MS);

/**
 * `next` returns the next moment in run time, `null` after the last; `fire` is called at it or later, never before. `precise`
 * busy-waits: neither timer nor nap delays a call, and it takes a whole core.
 */
export const startPacer = (
  clock: RunClock,
  next: () => number | null,
  fire: (dueUs: number) => void,
  { precise = false }: { precise?: boolean } = {},
) => {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  const { promise: finished, resolve: finish } = Promise.withResolvers<void>();
  let dueUs = next();
  let turnedUs = Number.NEGATIVE_INFINITY;
  let spunUs = 0;
  const turn = (): void => {
    if (stopped) return;
    let nowUs = clock.nowUs();
    if (nowUs - turnedUs < EMPTY_TURN_US) spunUs += nowUs - turnedUs;
    let batch = 0;
    for (; dueUs !== null && dueUs <= nowUs && batch < BATCH_MOST; batch++) {
      fire(dueUs);
      dueUs = next();
      nowUs = clock.nowUs();
    }
    if (dueUs === null) {
      finish();
      return;
    }
    turnedUs = nowUs;
    const restMs = (dueUs - nowUs - SPIN_US) / 1000;
    if (!precise && restMs >= 1) {
      timer = setTimeout(turn, restMs);
      return;
    }
    // What has just been fired is written in the next turn.
    if (!precise && restMs > 0 && batch === 0) nap();
    setImmediate(turn);
  };
  // Not at once: whoever is given `stop` may need it in the first call already.
  setImmediate(turn);
  return {
    finished,
    stop: (): void => {
      stopped = true;
      clearTimeout(timer);
      finish();
    },
    /** CPU time that waiting took, in microseconds. */
    spunUs: (): number => spunUs,
  };
};
