/**
 * Streams of many quiet organizations in turn, and beside them one that opens more than it may hold: what the gate plays. The
 * noisy one's calls come in bursts, because a steady flow would meet the rate of its key first; every fifth call of a burst is
 * a quiet one's. Where there are too few organizations for that, everybody there is takes turns.
 */
import {
  areOfTwoOrganizations,
  type Caller,
  callAs,
  callersMissing,
  runtimeCallers,
  sessionsOf,
} from "../callers/callers.ts";
import { streamsPerS } from "../callers/overload.ts";
import { inFlightCaps } from "../callers/rates.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import { turnsOf } from "../callers/tenants.ts";
import { constant } from "../load-profiles.ts";
import { storyOf } from "../story.ts";

type Cast = { noisy: Caller | undefined; quietAt: (i: number) => Caller };

/** One noisy, and enough quiet ones that none of them comes near its own cap. */
const CALLERS_WITH_NOISE = 4;

const castOf = oncePerView((view: TargetView): Cast => {
  const callers = runtimeCallers(view);
  const noisy = callers.find(({ inFlightCap }) => inFlightCap !== undefined) ?? callers[0];
  const quiet = noisy === undefined ? [] : callers.filter((caller) => areOfTwoOrganizations(caller, noisy));
  if (quiet.length < CALLERS_WITH_NOISE - 1) return { noisy: undefined, quietAt: turnsOf(callers) };
  return { noisy, quietAt: turnsOf(quiet) };
});

const QUIET_IN_BURST = 5;
/** Calls in flight that fill a cap which is not stated. */
const CAP = 32;
const LOW = 0.7;

/** A burst is `length` of every `every` calls: long enough to fill the noisy organization's cap twice and a half. */
const burstsOf = oncePerView((view: TargetView): { length: number; every: number } => {
  const cap = castOf(view).noisy?.inFlightCap ?? inFlightCaps(view).org ?? CAP;
  const length = Math.ceil((2.5 * cap * QUIET_IN_BURST) / (QUIET_IN_BURST - 1));
  return { length, every: 4 * length };
});

const isNoisy = (view: TargetView, i: number): boolean => {
  const { length, every } = burstsOf(view);
  return i % every < length && i % QUIET_IN_BURST !== 0;
};

export const chatBesideNoisy = storyOf({
  name: "chat-beside-noisy",
  purpose: "streams from many organizations evenly, while one of them opens more than it may hold",
  missing: callersMissing,
  needsCapacity: "chat",
  profile: (view, { ratePerS, durationS = 10 } = {}) => {
    const fits = streamsPerS(view);
    if (ratePerS === undefined && fits === null) return null;
    return constant(ratePerS ?? LOW * (fits as number), durationS);
  },
  plan: (_seed, i, view) => {
    const { noisy, quietAt } = castOf(view);
    const caller = noisy !== undefined && isNoisy(view, i) ? noisy : quietAt(i);
    return [callAs(view, i, caller, { route: "chat.control" })];
  },
  sessions: (view) => sessionsOf(runtimeCallers(view), ["chat.control"]),
  noisy: (view) => {
    const { noisy } = castOf(view);
    return noisy === undefined ? [] : [noisy.org];
  },
});
