/** How long a call is waited for. A run ends in bounded time although a part of the deployment never answers. */
import type { Received } from "../../client/send-request.ts";
import type { Timeouts } from "../../workload/timeouts.ts";

const FULL: Timeouts = { callMs: 45_000, firstEventMs: 15_000, idleMs: 15_000 };
/** After this many calls without an answer, a call is waited for `SLOWEST_TIMES` as long as the slowest answer took. */
const FULL_WAITS = 2;
const SLOWEST_TIMES = 5;
const SHORTEST_MS = 5_000;
/** The most time that a run loses to calls without an answer, or with a gateway's in its place. */
const LOST_MAX_MS = 150_000;

type Ended = Pick<Received, "startedUs" | "doneUs" | "ended" | "status">;

export const createAnswerWaits = () => {
  let [calls, lost, timedOut, slowestUs, lostUs, lostUntilUs] = [0, 0, 0, 0, 0, 0];
  return {
    timeouts: (): Timeouts => {
      if (timedOut < FULL_WAITS) return FULL;
      const mostMs = Math.max(SHORTEST_MS, (SLOWEST_TIMES * slowestUs) / 1000);
      const least = (ms: number): number => Math.min(ms, mostMs);
      return { callMs: least(FULL.callMs), firstEventMs: least(FULL.firstEventMs), idleMs: least(FULL.idleMs) };
    },
    add: ({ startedUs, doneUs, ended, status }: Ended): void => {
      calls += 1;
      if (ended === "timeout") timedOut += 1;
      else if (status !== null) slowestUs = Math.max(slowestUs, doneUs - startedUs);
      if (ended !== "timeout" && status !== null && !/^50[234]$/.test(`${status}`)) return;
      lost += 1;
      // Calls that waited at the same time lost that time once.
      lostUs += Math.max(0, doneUs - Math.max(startedUs, lostUntilUs));
      lostUntilUs = Math.max(doneUs, lostUntilUs);
    },
    /** Why no more calls are sent; `null` while they are. */
    spent: (): string | null => {
      if (lostUs < LOST_MAX_MS * 1000) return null;
      const seen = `${lost} of ${calls} calls got no answer, or 502 to 504 (${Math.round(lostUs / 1e6)} s in all)`;
      return `${seen}, so the rest was not sent: is one of several backends dead?`;
    },
  };
};
