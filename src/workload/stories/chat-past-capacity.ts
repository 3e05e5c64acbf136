/**
 * Three times as many streams as these callers can have admitted. Organizations take turns strictly, so that with enough of
 * them what is admitted is spread so evenly that none comes near its own cap or its key's rate, and every shed is the
 * deployment's (`b2b_overloaded`, item 210). With fewer it is an organization's or a key's refusal that is met.
 */
import { callAs, callersMissing, runtimeCallers, sessionsOf } from "../callers/callers.ts";
import { overloadReach, streamers, streamsPerS } from "../callers/overload.ts";
import { constant } from "../load-profiles.ts";
import { storyOf } from "../story.ts";

export const chatPastCapacity = storyOf({
  name: "chat-past-capacity",
  purpose: "three times the streams that fit, from many organizations evenly: overload of the whole deployment",
  missing: callersMissing,
  needsCapacity: "chat",
  profile: (view, { ratePerS, durationS = 10 } = {}) => {
    const fits = streamsPerS(view);
    if (ratePerS === undefined && fits === null) return null;
    return constant(ratePerS ?? 3 * (fits as number), durationS);
  },
  reaches: (view, wish) => overloadReach(view, chatPastCapacity.profile(view, wish)),
  plan: (_seed, i, view) => [callAs(view, i, streamers(view).at(i), { route: "chat.control" })],
  sessions: (view) => sessionsOf(runtimeCallers(view), ["chat.control"]),
});
