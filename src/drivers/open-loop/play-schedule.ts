/** Sends each call of a story at its moment, whatever became of earlier ones, and counts what could not be sent so. */
import { type ApiClient, NotSentError, type Sent } from "../../client/api-client.ts";
import type { CallContext } from "../../client/call-line.ts";
import type { RunClock } from "../../client/clock.ts";
import type { CallLine } from "../../history/line.ts";
import { Histogram } from "../../history/statistics/histogram.ts";
import { inTime, pause } from "../../supervision/waiting.ts";
import { scheduleOf } from "../../workload/arrivals.ts";
import { callId } from "../../workload/request.ts";
import { triesOf } from "../../workload/retry.ts";
import type { Step } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";
import { TIMEOUTS } from "../../workload/timeouts.ts";
import { lagFigures } from "../host-notes.ts";
import type { OpenLoopEnd, OpenLoopJob } from "./driver.ts";
import { startPacer } from "./pacer.ts";

/** How a story is played and its lines are called. */
type How = { stage: string; driver: string; idPrefix: string; onLine(line: CallLine): void };

type Performance = How & {
  seed: number;
  /** Ends the waits before retries. */
  signal: AbortSignal;
};

/** `over` is called once, when nothing more comes of the call, with the error where it could not be made. */
export const perform = (
  client: ApiClient,
  steps: readonly Step[],
  i: number,
  intendedUs: number,
  how: Performance,
  over: (error: unknown) => void,
): void => {
  const { stage, driver, idPrefix, seed, signal } = how;
  const tries = triesOf(steps, seed, i);
  let dueUs = intendedUs;
  const go = (next: ReturnType<typeof tries.next>): void => {
    if (next.done === true) {
      over(null);
      return;
    }
    const { step, at, attempt, waitMs } = next.value;
    const id = callId(idPrefix, i, at, attempt);
    const context: CallContext = { id, stage, driver, intendedUs: dueUs, attempt };
    if (at > 0) context.unscheduled = "step";
    if (waitMs === null) {
      client.begin(step, context, sent, over);
      return;
    }
    context.intendedUs += Math.round(waitMs * 1000);
    pause(waitMs, signal)
      .then(() => (signal.aborted ? over(null) : client.begin(step, context, sent, over)))
      .catch(over);
  };
  const sent = ({ line }: Sent): void => {
    how.onLine(line);
    dueUs = line.done_us;
    go(tries.next({ outcome: line.outcome, retryAfter: line.retry_after, nowMs: Date.now() }));
  };
  go(tries.next());
};

const MAX_OUTSTANDING = 4096;
/** A run that its target file stops has ended within two seconds. */
const STOPPED_DRAIN_MS = 1_000;

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
  const end = { offered: 0, started: 0, dropped: 0, queued: 0, unmade: 0, unsent: 0, cut: 0, startUs };
  let done = 0;
  let firstUnmade = "";
  /** The budget ended the load: calls under way are not waited for. */
  let cutShort = false;
  /** The arrival that `next` gave last, and its steps, planned before its moment. */
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
  const playing = { ...how, seed: job.seed, signal: waits.signal };
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
      perform(client, steps, k, dueUs, playing, over);
    } catch (error) {
      over(error);
    }
  };
  const pacer = startPacer(clock, next, fire, { precise: job.precise === true });
  const stop = (): void => {
    pacer.stop();
    waits.abort();
  };

  const finish = async (): Promise<{ end: OpenLoopEnd; firstUnmade: string }> => {
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
    return { end: { ...end, endUs: clock.nowUs(), lagMs: lagFigures(lag) }, firstUnmade };
  };
  return {
    now: () => ({ offered: end.offered, done }),
    stop,
    finished: finish(),
    /** CPU time that only waiting took, in microseconds. */
    spunUs: pacer.spunUs,
  };
};
