/**
 * Freshly loaded code runs many times slower for its first thousands of calls, and at a high rate that backlog delays all later
 * ones. So the story is first played to a local null server with made-up credentials; nothing of it is recorded.
 */
import { openApiClient } from "../../client/api-client.ts";
import type { RunClock } from "../../client/clock.ts";
import type { CallLine } from "../../history/line.ts";
import type { Secrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { profilePeakPerS } from "../../workload/load-profiles.ts";
import type { Story } from "../../workload/story.ts";
import { startNullServer } from "./bare-server.ts";
import { perform } from "./play-schedule.ts";
import type { OpenLoopJob } from "./process-pipe.ts";

/** Below this rate a cold call has time enough before the next. */
const FROM_PER_S = 1_000;
const CALLS = 8_000;
const AT_ONCE = 32;
const AT_MOST_MS = 3_000;

const SECRETS: Secrets = { read: async () => "of-nobody", forget: () => undefined };

const elsewhere = (target: Target, port: number): Target => {
  const { transport: _transport, key_management_url: _keys, tile_url: _tiles, ...own } = target;
  return { ...own, base_url: `http://127.0.0.1:${port}/v1` };
};

/** `onLine`: what the driver does with its lines, on copies that go nowhere. */
export const warmUp = async (
  job: OpenLoopJob,
  story: Story,
  clock: RunClock,
  onLine: (line: CallLine) => void,
): Promise<void> => {
  if (job.precise !== true && profilePeakPerS(job.profile) / (job.segment?.of ?? 1) < FROM_PER_S) return;
  const server = await startNullServer(clock.nowUs);
  const { seed, view } = job;
  const how = { stage: "warm-up", driver: "warm-up", idPrefix: "warm-up", onLine, seed, signal: AbortSignal.abort() };
  const target = elsewhere(job.target, server.port);
  const client = await openApiClient({ ...how, target, secrets: SECRETS, view, clock });
  const untilMs = performance.now() + AT_MOST_MS;
  let begun = 0;
  try {
    await new Promise<void>((resolve) => {
      let under = 0;
      let isBeginning = false;
      const over = (): void => {
        under -= 1;
        // A call that fails at once returns in the middle of the loop, which goes on by itself.
        if (!isBeginning) next();
      };
      const next = (): void => {
        isBeginning = true;
        while (under < AT_ONCE && begun < CALLS && performance.now() < untilMs) {
          under += 1;
          const i = begun++;
          perform(client, story.plan(seed, i, view), i, clock.nowUs(), how, over);
        }
        isBeginning = false;
        if (under === 0) resolve();
      };
      next();
    });
  } finally {
    await client.close();
    server.close();
  }
};
