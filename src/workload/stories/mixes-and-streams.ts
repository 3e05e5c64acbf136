/**
 * The stories whose load is ordinary and whose point is what happens to the deployment meanwhile: the runner brings the
 * disturbance (a slower service, a lost replica, a deploy), these only say who calls what.
 */
import { callAs, callersMissing, runtimeCallers, sessionsOf } from "../callers/callers.ts";
import { streamers, streamsPerS } from "../callers/overload.ts";
import type { Profile } from "../load-profiles.ts";
import { constant, ramp, spike } from "../load-profiles.ts";
import type { StepWish } from "../step.ts";
import { type ProfileWish, type Story, storyOf } from "../story.ts";
import { mixRatePerS, planMix, sessionsOfMix } from "./steady-mix.ts";

const mixStory = (
  name: string,
  purpose: string,
  profile: (ratePerS: number, durationS: number) => Profile,
  lengthS: number,
): Story =>
  storyOf({
    name,
    purpose,
    missing: callersMissing,
    needsCapacity: "chat",
    profile: (view, { ratePerS, durationS = lengthS }: ProfileWish = {}) => {
      const rate = ratePerS ?? mixRatePerS(view);
      return rate === null ? null : profile(rate, durationS);
    },
    plan: planMix,
    sessions: sessionsOfMix,
  });

/** Streams alone, in turn, at a share of capacity; `habit` says what is peculiar to a call's reader. */
const streamStory = (
  name: string,
  purpose: string,
  share: number,
  lengthS: number,
  habit: (i: number) => Partial<StepWish>,
): Story =>
  storyOf({
    name,
    purpose,
    missing: callersMissing,
    needsCapacity: "chat",
    profile: (view, { ratePerS, durationS = lengthS } = {}) => {
      const fits = streamsPerS(view);
      if (ratePerS === undefined && fits === null) return null;
      return constant(ratePerS ?? share * (fits as number), durationS);
    },
    plan: (_seed, i, view) => {
      const { callers, at } = streamers(view);
      // By rounds, so that each caller has readers of every kind.
      const reader = i + Math.floor(i / callers.length);
      return [callAs(view, i, at(i), { route: "chat.control", ...habit(reader) })];
    },
    sessions: (view) => sessionsOf(runtimeCallers(view), ["chat.control"]),
  });

export const spikeAndRecover = mixStory(
  "spike-and-recover",
  "five times the ordinary load for a while, then calm",
  (rate, s) => spike(rate, 5, s),
  20,
);
export const soak = mixStory("soak", "an ordinary day, for hours: leaks of slots, memory and sockets", constant, 3600);
export const replicaLost = mixStory("replica-lost", "ordinary load while a replica goes away", constant, 20);
export const rollingDeploy = mixStory(
  "rolling-deploy",
  "ordinary load while replicas are replaced one by one",
  constant,
  30,
);
export const coldStartUnderLoad = mixStory(
  "cold-start-under-load",
  "a start with the load already there",
  ramp.bind(null, 0),
  15,
);
export const brownout = streamStory(
  "brownout",
  "streams at a constant rate while each takes five times as long",
  0.6,
  20,
  () => ({}),
);
export const heavyTailStreams = streamStory(
  "heavy-tail-streams",
  "streams of very unequal length near capacity",
  0.8,
  20,
  () => ({}),
);
/** A third of the readers leave early; their slots have to come back. */
export const leavingReaders = streamStory(
  "leaving-readers",
  "streams whose readers leave before the end",
  0.6,
  12,
  (i) => (i % 3 === 0 ? { abort: { afterEvents: 1 + (i % 4) } } : {}),
);
/** Every second reader rests after each piece; what it holds is its own organization's, and it comes to an end. */
export const slowReaders = streamStory("slow-readers", "streams half of which are read slowly", 0.3, 15, (i) =>
  i % 2 === 0 ? { slowReadMs: 50 } : {},
);
