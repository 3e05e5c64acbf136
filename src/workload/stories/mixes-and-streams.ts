/**
 * Stories of the ordinary mix and of streams alone. Most carry an ordinary load beside something that the runner does to the
 * deployment (a slower service, a lost replica, a deploy); the last two overload it.
 */
import { callAs, callersMissing, runtimeCallers, sessionsOf } from "../callers/callers.ts";
import { overloadReach, streamers, streamsPerS } from "../callers/overload.ts";
import {
  constant,
  type Profile,
  profileDurationS,
  profilePeakPerS,
  ramp,
  spike,
  storm,
  upAndDown,
} from "../load-profiles.ts";
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

/** Streams alone, in turn, at a share of capacity; `habit`: what is peculiar to a call's reader. */
const streamStory = (
  name: string,
  purpose: string,
  share: number,
  lengthS: number,
  habit: (reader: number) => Partial<StepWish> = () => ({}),
  shape: (ratePerS: number, durationS: number) => Profile = constant,
): Story =>
  storyOf({
    name,
    purpose,
    missing: callersMissing,
    needsCapacity: "chat",
    profile: (view, { ratePerS, durationS = lengthS } = {}) => {
      const fits = streamsPerS(view);
      if (ratePerS === undefined && fits === null) return null;
      return shape(ratePerS ?? share * (fits as number), durationS);
    },
    plan: (_seed, i, view) => {
      const { callers, at } = streamers(view);
      // By rounds, so that each caller has readers of every kind.
      const reader = i + Math.floor(i / callers.length);
      return [callAs(view, i, at(i), { route: "chat.control", ...habit(reader) })];
    },
    sessions: (view) => sessionsOf(runtimeCallers(view), ["chat.control"]),
  });

/** The same past the capacity: which refusal has to come depends on who calls. */
const overloadStory = (...of: Parameters<typeof streamStory>): Story => {
  const story = streamStory(...of);
  return { ...story, reaches: (view, wish) => overloadReach(view, story.profile(view, wish)) };
};

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
);
export const capacityHalved = streamStory(
  "capacity-halved",
  "streams at a constant rate while half as many are served at once",
  0.8,
  30,
);
export const heavyTailStreams = streamStory(
  "heavy-tail-streams",
  "streams of very unequal length near capacity",
  0.8,
  20,
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
/**
 * Three times as many streams as these callers can have admitted. Organizations take turns strictly: with enough of them
 * none comes near its own cap or its key's rate, and every shed is the deployment's (`b2b_overloaded`, item 210). With fewer
 * an organization's or a key's refusal comes first.
 */
export const chatPastCapacity = overloadStory(
  "chat-past-capacity",
  "three times the streams that fit, from many organizations evenly: overload of the whole deployment",
  3,
  10,
);
const RETRIES = 3;
/** A storm's baseline, and its top in attempts, as multiples of what is carried. */
const STORM_BASE = 0.8;
const STORM_TOP = 10;
/** Attempts for each call where nine of ten are refused: what ten times the capacity leads to. */
const STORM_ATTEMPTS = Array.from({ length: RETRIES + 1 }, (_, i) => (1 - 1 / STORM_TOP) ** i).reduce(
  (a, b) => a + b,
  0,
);
/** Attempts come in bunches, which a rate near the permit would hold back. */
const STORM_OF_PERMIT = 0.8;

const STORM: Story = streamStory(
  "retry-storm",
  "streams at a baseline, then ten times what is carried with retries, half of them without waiting, then the baseline again",
  STORM_BASE,
  28,
  (reader) => ({ retry: { times: RETRIES, honours: reader % 2 === 0 } }),
);

/**
 * Clients that come back: every second one waits for as long as `Retry-After` says (with jitter, item 217), the others ask
 * again at once. When the top is over, the deployment has to serve as before in spite of the second kind. `ratePerS`: the
 * baseline.
 */
export const retryStorm: Story = {
  ...STORM,
  profile: (view, wish = {}) => {
    const { maxPerS = Number.POSITIVE_INFINITY } = wish;
    const base = STORM.profile(view, wish);
    if (base === null) return null;
    const ratePerS = profilePeakPerS(base);
    const topPerS = Math.min((STORM_TOP / STORM_BASE) * ratePerS, STORM_OF_PERMIT * maxPerS) / STORM_ATTEMPTS;
    return storm(ratePerS, Math.max(ratePerS, topPerS), profileDurationS(base));
  },
  reaches: (view, wish) => overloadReach(view, retryStorm.profile(view, wish)),
};

const CURVE_S = 300;
/** Standard deviations of a Poisson process that a permitted rate has to leave room for. */
const ROOM = 5;
/** What may be offered on average, that random arrivals stay inside the permit. */
const onAverage = (maxPerS: number): number => {
  const root = (-ROOM + Math.sqrt(ROOM * ROOM + 4 * maxPerS)) / 2;
  return root * root;
};

/** Streams at levels from half of the knee to ten times it, as far as permitted, and down again. `ratePerS`: the knee. */
export const sheddingCurve: Story = storyOf({
  name: "shedding-curve",
  purpose: "streams at rates from half to ten times what is carried, up and down again: what shedding costs",
  missing: callersMissing,
  needsCapacity: "chat",
  profile: (view, { ratePerS, durationS = CURVE_S, maxPerS } = {}) => {
    const kneePerS = ratePerS ?? streamsPerS(view);
    if (kneePerS === null) return null;
    const { service_ms: serviceMs = Number.POSITIVE_INFINITY } = view.limits;
    return upAndDown(kneePerS, durationS, maxPerS && onAverage(maxPerS), serviceMs / 1000);
  },
  reaches: (view, wish) => overloadReach(view, sheddingCurve.profile(view, wish)),
  plan: (_seed, i, view) => [callAs(view, i, streamers(view).at(i), { route: "chat.control" })],
  sessions: (view) => sessionsOf(runtimeCallers(view), ["chat.control"]),
});
