/** Sends each call of a story at its scheduled time, whatever the earlier answers, and counts those it cannot send. */
import { type ApiClient, type CallContext, NotSentError, type Sent } from "../../client/api-client.ts";
import type { CallLine } from "../../history/line.ts";
import type { Protocol } from "../../history/run-document.ts";
import { Histogram } from "../../history/statistics/histogram.ts";
import { blockThread, inTime, pause, type RunClock } from "../../supervision/waiting.ts";
import type { Budget } from "../../workload/budget.ts";
import { scheduleOf } from "../../workload/load-profiles.ts";
import { triesOf } from "../../workload/retry.ts";
import { callId, type Step } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";
import { TIMEOUTS } from "../../workload/timeouts.ts";
import { type DriveJob, lagFigures, STOPPED_DRAIN_MS } from "../driver.ts";

/** Nearer than this to the next call, the pacer only turns the event loop and does not nap. */
const SPIN_US = 150;
/** Length of a nap. With the machine's overhead, an answer is read at most a tenth of a millisecond late. */
const NAP_MS = 0.05;
/** A turn of the event loop below this counts as waiting: an empty one takes 3 us, one that reads an answer 30 us. */
const EMPTY_TURN_US = 15;
/**
 * The most calls sent in one turn of the event loop. After a pause many are due at once; answers are read between
 * batches, because undici searches longer for a free connection the more calls are in flight.
 */
const BATCH_MOST = 16;

/**
 * Calls back at times known beforehand. Node's timers count whole milliseconds, so the last one is spent in naps, each
 * followed by a turn of the event loop to read the sockets. A nap may last twice as long as asked, so the last
 * `SPIN_US` are turns only, which take a whole core.
 *
 * `next` returns the next time of the run, `null` after the last; `fire` is called then or later, never before.
 * `precise` busy-waits: neither timer nor nap delays a call, and it takes a whole core.
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
    if (dueUs === null) return void finish();
    turnedUs = nowUs;
    const restMs = (dueUs - nowUs - SPIN_US) / 1000;
    if (!precise && restMs >= 1) {
      timer = setTimeout(turn, restMs);
      return;
    }
    // No nap after a batch, because its requests are written in the next turn.
    if (!precise && restMs > 0 && batch === 0) blockThread(NAP_MS);
    setImmediate(turn);
  };
  // Deferred, because the first call may already need `stop`.
  setImmediate(turn);
  return {
    finished,
    stop: (): void => {
      stopped = true;
      clearTimeout(timer);
      finish();
    },
    /** CPU time that waiting took so far, in microseconds. */
    spunUs: (): number => spunUs,
  };
};

type How = { stage: string; driver: string; idPrefix: string; onLine(line: CallLine): void };

export type OpenLoopJob = DriveJob & {
  /** This generator's part of the schedule: every `of`-th arrival, beginning with `index`. */
  segment?: { index: number; of: number };
  /** Admitted calls are folded in the process that makes them. */
  fold?: true;
  budget?: Budget;
  /** The budget of the target file, if `budget` is a share or the rest of it. */
  stated?: Budget;
};

const MAX_OUTSTANDING = 4096;

export const startPressing = (
  job: OpenLoopJob,
  story: Story,
  client: ApiClient,
  clock: RunClock,
  startUs: number,
  how: How,
) => {
  const { index, of } = job.segment ?? { index: 0, of: 1 };
  const bound = job.maxOutstanding ?? MAX_OUTSTANDING;
  const schedule = scheduleOf(job.profile, job.arrivals, job.seed);
  const waits = new AbortController();
  const lag = new Histogram();
  let under = 0;
  let none = Promise.withResolvers<void>();
  const noneUnder = (): Promise<void> => {
    none = Promise.withResolvers();
    if (under === 0) none.resolve();
    return none.promise;
  };
  /**
   * `offered`: arrivals that came due. `dropped`: not sent because `maxOutstanding` was reached. `queued`: sent while every
   * connection was in use, so they may have waited here. `unmade`: could not be made, e.g. without a session. `unsent`:
   * the budget was spent or its stop condition met.
   */
  const end = { offered: 0, started: 0, dropped: 0, queued: 0, unmade: 0, unsent: 0, cut: 0, startUs };
  let done = 0;
  let firstUnmade = "";
  /** Whether the budget ended the load; calls in flight then get only `STOPPED_DRAIN_MS`. */
  let cutShort = false;
  /** The arrival that `next` returned last, and its steps, which are planned before they are due. */
  let k = -1;
  let steps: readonly Step[] | Error = [];

  const next = (): number | null => {
    for (let due = schedule.next(); due.done !== true; due = schedule.next()) {
      k += 1;
      if (k % of !== index) continue;
      try {
        steps = story.plan(job.seed, k, job.view);
      } catch (error) {
        steps = error as Error;
      }
      return startUs + due.value;
    }
    return null;
  };
  const unmade = (error: unknown): void => {
    if (error instanceof NotSentError) {
      end.unsent += 1;
      cutShort = true;
      stop();
      return;
    }
    end.unmade += 1;
    if (firstUnmade === "") firstUnmade = error instanceof Error ? error.message : String(error);
  };
  const over = (error: unknown): void => {
    under -= 1;
    done += 1;
    if (error !== null) unmade(error);
    if (under === 0) none.resolve();
  };
  /** Plays the steps of call `i`, with retries, and calls `over` at the end. */
  const perform = (steps: readonly Step[], i: number, intendedUs: number): void => {
    const { stage, driver, idPrefix } = how;
    const nextTry = triesOf(steps, job.seed, i);
    let dueUs = intendedUs;
    const go = (next: ReturnType<typeof nextTry>): void => {
      if (next === null) return void over(null);
      const { step, at, attempt, waitMs } = next;
      const context: CallContext = { id: callId(idPrefix, i, at, attempt), stage, driver, intendedUs: dueUs, attempt };
      if (at > 0) context.unscheduled = "step";
      if (waitMs === null) return void client.begin(step, context, sent, over);
      context.intendedUs += Math.round(waitMs * 1000);
      pause(waitMs, waits.signal)
        .then(() => (waits.signal.aborted ? over(null) : client.begin(step, context, sent, over)))
        .catch(over);
    };
    const sent = ({ line }: Sent): void => {
      how.onLine(line);
      dueUs = line.done_us;
      go(nextTry({ outcome: line.outcome, retryAfter: line.retry_after, nowMs: Date.now() }));
    };
    go(nextTry());
  };
  const fire = (dueUs: number): void => {
    end.offered += 1;
    if (under >= bound) {
      end.dropped += 1;
      return;
    }
    if (under >= client.connections) end.queued += 1;
    lag.record(clock.nowUs() - dueUs);
    end.started += 1;
    under += 1;
    try {
      if (steps instanceof Error) throw steps;
      perform(steps, k, dueUs);
    } catch (error) {
      over(error);
    }
  };
  const pacer = startPacer(clock, next, fire, { precise: job.precise === true });
  const stop = (): void => {
    pacer.stop();
    waits.abort();
  };

  const finish = async () => {
    await pacer.finished;
    const drainMs = cutShort ? STOPPED_DRAIN_MS : (job.drainMs ?? job.timeouts?.callMs ?? TIMEOUTS.callMs);
    await inTime(noneUnder(), drainMs);
    end.cut = under;
    if (under > 0) {
      // Closing the connections ends the rest; each call still writes its line.
      waits.abort();
      await client.close();
      await noneUnder();
    }
    // Lateness against the schedule; waiting for a connection is not included.
    return { end: { ...end, endUs: clock.nowUs(), lagMs: lagFigures(lag) }, firstUnmade };
  };
  return {
    now: () => ({ offered: end.offered, done }),
    stop,
    finished: finish(),
    spunUs: pacer.spunUs,
  };
};

export type OpenLoopEnd = Awaited<ReturnType<typeof startPressing>["finished"]>["end"] & { protocols?: Protocol[] };
