/**
 * One organization exceeds its caps, and others beside it must not be harmed. Its streams come in bursts, which its cap
 * sheds (`org_overloaded`, item 211); a steady flow would meet its key's rate first. In noisy-neighbour the others
 * read; in chat-beside-noisy, which the gate plays, they open streams as well.
 */
import { areOfTwoOrganizations, type Caller, callAs, runtimeCallers } from "../callers/callers.ts";
import { GLOBAL, KEY, ORGANIZATION, streamers, streamsPerS } from "../callers/overload.ts";
import { inFlightCaps, partOf, turnsOf } from "../callers/rates.ts";
import { oncePerView, type TargetView } from "../callers/target-view.ts";
import { profilePeakPerS } from "../load-profiles.ts";
import { notReaching, profileAt, type Reach, reaching, type Story, stayingBelow, storyOf } from "../story.ts";

const castOf = oncePerView((view: TargetView) => {
  const callers = runtimeCallers(view);
  const noisy = callers.find(({ inFlightCap }) => inFlightCap !== undefined) ?? callers[0];
  const quiet = noisy === undefined ? [] : callers.filter((caller) => areOfTwoOrganizations(caller, noisy));
  return { noisy, quiet, quietAt: turnsOf(quiet) };
});

export const orgsOf = (caller: Caller | null | undefined): string[] => (caller ? [caller.org] : []);

/** The noisy organization's calls in a burst if no cap is stated. */
const BURST = 64;

const capOf = (view: TargetView): number | undefined => castOf(view).noisy?.inFlightCap ?? inFlightCaps(view).org;

/** Every fifth call of a burst is a quiet organization's, because the cap is full only while a burst lasts. */
const QUIET_IN_BURST = 5;

/** `length` of every `every` calls are a burst, in which the noisy organization makes `noisy` calls. */
const burst = (noisy: number) => {
  const length = Math.ceil((noisy * QUIET_IN_BURST) / (QUIET_IN_BURST - 1));
  return { noisy, length, every: 4 * length };
};

const isNoisyIn = ({ length, every }: ReturnType<typeof burst>, i: number): boolean =>
  i % every < length && i % QUIET_IN_BURST !== 0;

/** In each burst the noisy organization makes twice as many calls as its cap allows at once. */
const noisyCalls = oncePerView((view: TargetView) => {
  const cap = capOf(view);
  return burst(cap === undefined ? BURST : Math.max(4, 2 * cap));
});

export const isNoisyCall = (view: TargetView, i: number): boolean => isNoisyIn(noisyCalls(view), i);

export const noisyShare = (view: TargetView): number => noisyCalls(view).noisy / noisyCalls(view).every;

/** The rate at which all calls of a burst arrive before its first stream ends: within five sixths of a stream's duration. */
const outrunsPerS = (view: TargetView): number | null => {
  const { service_ms: serviceMs } = view.limits;
  return serviceMs === undefined ? null : (1.2 * noisyCalls(view).length * 1000) / serviceMs;
};

/** The outcomes that bursts at this rate must meet: the organization's cap, if stated and met before other limits. */
export const burstReach = (view: TargetView, ratePerS: number): Reach => {
  const cap = capOf(view);
  const outruns = outrunsPerS(view);
  const unstated =
    "`limits.org_in_flight` and `limits.service_ms` are not stated, so nobody knows when a burst is enough";
  if (cap === undefined || outruns === null) return notReaching(ORGANIZATION, unstated);
  // The cap is full after half a burst; by then none of its streams may have ended.
  if (ratePerS < 0.6 * outruns) {
    const slow = `a burst has to come at ${outruns.toFixed(0)} calls/s, and ${ratePerS.toFixed(0)} are permitted`;
    return stayingBelow(ORGANIZATION, slow);
  }
  const { all } = inFlightCaps(view);
  const { burst: saved = 0 } = view.limits;
  const isSure = all !== undefined && all > cap && saved > cap;
  return isSure ? reaching(ORGANIZATION) : { ...reaching(), oneOf: [ORGANIZATION, GLOBAL, KEY] };
};

export const noisyNeighbour = storyOf({
  name: "noisy-neighbour",
  purpose: "one organization runs into its own cap while the others stay unharmed",
  missing: (view) =>
    castOf(view).quiet.length > 0
      ? []
      : ["callers of two organizations: two tenants, or the roles `publishable` and `publishable_other_org`"],
  needsCapacity: "chat",
  profile: profileAt((view) => {
    const outruns = outrunsPerS(view);
    return outruns === null ? partOf(streamsPerS(view), 3) : Math.max(40, Math.min(400, outruns));
  }, 12),
  reaches: (view, wish) => {
    const profile = noisyNeighbour.profile(view, wish);
    return burstReach(view, profile === null ? 0 : profilePeakPerS(profile));
  },
  plan: (_seed, i, view) => {
    const { noisy, quietAt } = castOf(view);
    if (noisy === undefined) return [];
    if (isNoisyCall(view, i)) return [callAs(view, i, noisy, { route: "chat.control" })];
    // The quiet ones read, so that the deployment as a whole has room.
    return [callAs(view, i, quietAt(i), { route: i % 8 === 0 ? "poi.enrich" : "design.styles" })];
  },
  routes: ["chat.control", "design.styles"],
  noisy: (view) => orgsOf(castOf(view).noisy),
});

/** The calls of noisy-neighbour on the same seed without the bursts: how the quiet organizations fare alone. */
export const noisyNeighbourAlone: Story = {
  ...noisyNeighbour,
  name: "noisy-neighbour-alone",
  purpose: "the calls of the quiet organizations of noisy-neighbour, at the same moments, without the noisy one",
  reaches: () => reaching(),
  plan: (seed, i, view) => (isNoisyCall(view, i) ? [] : noisyNeighbour.plan(seed, i, view)),
};

/** One noisy caller, and enough quiet ones that none of them comes near its own cap. */
const CALLERS_WITH_NOISE = 4;

/** The noisy caller; `null` if there are too few callers, so that all take turns. */
const noisyStreamer = oncePerView((view: TargetView): Caller | null => {
  const { noisy, quiet } = castOf(view);
  return noisy === undefined || quiet.length < CALLERS_WITH_NOISE - 1 ? null : noisy;
});

/** The assumed cap on calls in flight if none is stated. */
const CAP = 32;
const LOW = 0.7;

/** Bursts long enough to fill the noisy organization's cap 2.5 times. */
const burstsOf = oncePerView((view: TargetView) => {
  const cap = noisyStreamer(view)?.inFlightCap ?? inFlightCaps(view).org ?? CAP;
  return burst(2.5 * cap);
});

export const chatBesideNoisy = storyOf({
  name: "chat-beside-noisy",
  purpose: "streams from many organizations evenly, while one of them opens more than it may hold",
  needsCapacity: "chat",
  profile: profileAt((view) => partOf(streamsPerS(view), LOW), 10),
  plan: (_seed, i, view) => {
    const noisy = isNoisyIn(burstsOf(view), i) ? noisyStreamer(view) : null;
    const at = noisyStreamer(view) === null ? streamers(view).at : castOf(view).quietAt;
    return [callAs(view, i, noisy ?? at(i), { route: "chat.control" })];
  },
  routes: ["chat.control"],
  noisy: (view) => orgsOf(noisyStreamer(view)),
});
