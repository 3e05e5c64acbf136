/** How long a call is waited for. A run ends in bounded time although a part of the deployment never answers. */
import type { Received } from "../../client/send-request.ts";
import type { Timeouts } from "../../workload/timeouts.ts";

const FULL: Timeouts = { callMs: 45_000, firstEventMs: 15_000, idleMs: 15_000 };
/** After this many calls without an answer, a call is waited for `SLOWEST_TIMES` as long as the slowest answer took. */
const FULL_WAITS = 2;
const SLOWEST_TIMES = 5;
const SHORTEST_MS = 5_000;
/** The most time that a run loses to calls without an answer. */
const LOST_MAX_MS = 150_000;

type Ended = Pick<Received, "startedUs" | "doneUs" | "ended" | "status">;

export const createAnswerWaits = () => {
  let [calls, unanswered, slowestUs, lostUs, lostUntilUs] = [0, 0, 0, 0, 0];
  return {
    timeouts: (): Timeouts => {
      if (unanswered < FULL_WAITS) return FULL;
      const mostMs = Math.max(SHORTEST_MS, (SLOWEST_TIMES * slowestUs) / 1000);
      const least = (ms: number): number => Math.min(ms, mostMs);
      return { callMs: least(FULL.callMs), firstEventMs: least(FULL.firstEventMs), idleMs: least(FULL.idleMs) };
    },
    add: ({ startedUs, doneUs, ended, status }: Ended): void => {
      calls += 1;
      if (ended === "timeout") {
        unanswered += 1;
        // Calls that waited at the same time lost that time once.
        lostUs += Math.max(0, doneUs - Math.max(startedUs, lostUntilUs));
        lostUntilUs = Math.max(doneUs, lostUntilUs);
      } else if (status !== null) slowestUs = Math.max(slowestUs, doneUs - startedUs);
    },
    /** Why no more calls are sent; `null` while they are. */
    spent: (): string | null => {
      if (lostUs < LOST_MAX_MS * 1000) return null;
      const seen = `${unanswered} of ${calls} calls got no answer in time (${Math.round(lostUs / 1e6)} s in all)`;
      return `${seen}, so the rest was not sent: does one of several backends take calls and never answer?`;
    },
  };
};
