/**
 * Overload with clients that come back: every second one waits for as long as `Retry-After` says (with jitter, item 217),
 * the others ask again at once. Shedding has to stay cheap and the deployment has to recover in spite of the second kind.
 */
import { callAs, callersMissing, runtimeCallers, sessionsOf } from "../callers/callers.ts";
import { overloadReach, streamers, streamsPerS } from "../callers/overload.ts";
import { spike } from "../load-profiles.ts";
import { storyOf } from "../story.ts";

const RETRIES = 3;

export const retryStorm = storyOf({
  name: "retry-storm",
  purpose: "a spike of streams whose clients retry, half of them without waiting",
  missing: callersMissing,
  needsCapacity: "chat",
  profile: (view, { ratePerS, durationS = 16 } = {}) => {
    const fits = streamsPerS(view);
    if (ratePerS === undefined && fits === null) return null;
    return spike(ratePerS ?? 0.5 * (fits as number), 4, durationS);
  },
  reaches: (view, wish) => overloadReach(view, retryStorm.profile(view, wish)),
  plan: (_seed, i, view) => {
    const { callers, at } = streamers(view);
    // By rounds, so that each caller has clients of both kinds.
    const honours = (i + Math.floor(i / callers.length)) % 2 === 0;
    return [callAs(view, i, at(i), { route: "chat.control", retry: { times: RETRIES, honours } })];
  },
  sessions: (view) => sessionsOf(runtimeCallers(view), ["chat.control"]),
});
