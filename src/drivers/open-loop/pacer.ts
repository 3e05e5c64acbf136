/**
 * Calls back at moments known beforehand. A timer of Node comes up to two milliseconds late, so the last stretch is spent
 * in turns of the event loop, which go on reading sockets; only a short one, because each such turn is paid with a core
 * that the target may need.
 */
import type { RunClock } from "../../client/clock.ts";

/** Turn the loop when the next moment is nearer than this. */
const SPIN_US = 300;

type Pacer = { finished: Promise<void>; stop(): void };

/**
 * `next` gives the following moment in run time, `null` after the last; `fire` is called at it or as soon after as can
 * be, never before.
 */
export const startPacer = (clock: RunClock, next: () => number | null, fire: (dueUs: number) => void): Pacer => {
  let stopped = false;
  let timer: NodeJS.Timeout | null = null;
  let finish: () => void = () => undefined;
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let dueUs = next();
  const turn = (): void => {
    if (stopped) return;
    let nowUs = clock.nowUs();
    // A bounded batch: after a pause of the process everything is due, and answers have to be read in between.
    for (let batch = 0; dueUs !== null && dueUs <= nowUs && batch < 64; batch++) {
      fire(dueUs);
      dueUs = next();
      nowUs = clock.nowUs();
    }
    if (dueUs === null) {
      finish();
      return;
    }
    const restUs = dueUs - nowUs;
    if (restUs <= SPIN_US) setImmediate(turn);
    else timer = setTimeout(turn, Math.max(0, (restUs - SPIN_US) / 1000 - 1));
  };
  turn();
  return {
    finished,
    stop: () => {
      stopped = true;
      if (timer !== null) clearTimeout(timer);
      finish();
    },
  };
};
